#pragma once
// What dropout multiplies by: the product's own draws, so that both drop the same elements. Ones without dropout.
//   rows      (B,T,C)       attention (B,H,T,T)

#include <vector>

#include "layers/residual/dropout.hpp"

namespace textbook {

template <class Number>
std::vector<Number> row_multipliers(const Dropout& dropout, int layer, DropoutSite site, size_t B, size_t T, size_t C) {
  std::vector<float> m(B * T * C, 1);
  dropout_apply(m.data(), dropout, layer, site, int(B), int(T), int(C));
  return {m.begin(), m.end()};
}

template <class Number>
std::vector<Number> attention_multipliers(const Dropout& dropout, int layer, size_t B, size_t H, size_t T) {
  std::vector<float> m(B * H * T * T, 1);
  for (size_t row = 0; row < B * H * T && dropout.p > 0; ++row) {
    const size_t i = row % T, h = row / T % H, b = row / T / H;
    dropout_line(&m[row * T], dropout.attention_key(int(b), layer, int(h), int(i)), dropout.p, 0, int(T));
  }
  return {m.begin(), m.end()};
}

}  // namespace textbook
