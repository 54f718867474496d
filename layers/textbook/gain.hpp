#pragma once
//   x, y (N,C)   weight λ (C), or one number for all
//   forward   y  = λ ⊙ x
//   backward  dx = λ ⊙ dy      dλ += Σₙ dy ⊙ x, for one number the sum over the channels too

#include <cstddef>

namespace textbook {

template <class Number>
struct Gain {  // parameter, or its gradient; without weight it is absent: the identity
  Number* weight = nullptr;
  bool single = false;
};

template <class Number>
void gain_forward(Number* y, const Number* x, const Gain<Number>& p, size_t N, size_t C) {
  for (size_t i = 0; i < N * C; ++i) y[i] = p.weight ? p.weight[p.single ? 0 : i % C] * x[i] : x[i];
}

template <class Number>
void gain_backward(Number* dx, const Gain<Number>& g, const Number* dy, const Number* x, const Gain<Number>& p,
                   size_t N, size_t C) {
  for (size_t i = 0; i < N * C; ++i) {
    if (p.weight) g.weight[p.single ? 0 : i % C] += dy[i] * x[i];          // y = λ ⊙ x
    dx[i] = p.weight ? p.weight[p.single ? 0 : i % C] * dy[i] : dy[i];  // y = λ ⊙ x
  }
}

}  // namespace textbook
