#pragma once
//   x (N,stride), of which `count` parts of `width` numbers each, one behind the other, are normalized: the heads of q
//   or of k, or all of q or k at once (count 1)
//   forward   each part ← norm(part), with one gain (width) for all
//   backward  the norm's, part by part

#include "norm.hpp"

namespace textbook {

template <class Number>
struct QkNormSaved {
  std::vector<Number> x;                // (N,count,width) as they were
  std::vector<NormSaved<Number>> norm;  // of each part
};

template <class Number>
void qk_norm_forward(Number* x, QkNormSaved<Number>& saved, const Norm<Number>& p, size_t N, size_t count, size_t width,
                     size_t stride) {
  saved = {std::vector<Number>(N * count * width), std::vector<NormSaved<Number>>(N * count)};
  for (size_t part = 0; part < N * count; ++part) {
    Number* here = x + part / count * stride + part % count * width;
    std::copy_n(here, width, &saved.x[part * width]);
    norm_forward(here, saved.norm[part], &saved.x[part * width], p, 1, width);
  }
}

template <class Number>
void qk_norm_backward(Number* dx, const Norm<Number>& g, const QkNormSaved<Number>& saved, const Norm<Number>& p,
                      size_t N, size_t count, size_t width, size_t stride) {
  for (size_t part = 0; part < N * count; ++part) {
    Number* here = dx + part / count * stride + part % count * width;
    const std::vector<Number> dy(here, here + width);
    norm_backward(here, g, dy.data(), &saved.x[part * width], saved.norm[part], p, 1, width);
  }
}

}  // namespace textbook
