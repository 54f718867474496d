#pragma once
// Dropout, and the multipliers that it draws.

#include <cstddef>
#include <vector>

#include "layers/dropout/dropout.hpp"

namespace textbook {

// ---- dropout -------------------------------------------------------------------------------------------------

//   x, multiplier (n)
//   forward   x ← x·multiplier        multiplier is 0 with probability p, else 1/(1 − p)
//   backward  dx ← dx·multiplier      in place, and with the same multipliers

template <class Number>
void dropout_forward(Number* x, const Number* multiplier, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] *= multiplier[i];
}

template <class Number>
void dropout_backward(Number* dx, const Number* multiplier, size_t n) {
  for (size_t i = 0; i < n; ++i) dx[i] *= multiplier[i];  // x ← x·multiplier
}

// ---- multipliers ---------------------------------------------------------------------------------------------

// The multipliers come from the fast layers' random numbers, so that both drop the same elements. Without dropout they
// are 1.

// (B,T,C)
template <class Number>
std::vector<Number> row_multipliers(const Dropout& dropout, int layer, DropoutSite site, size_t B, size_t T, size_t C) {
  std::vector<float> m(B * T * C, 1);
  dropout_apply(m.data(), dropout, layer, site, int(B), int(T), int(C));
  return {m.begin(), m.end()};
}

// (B,H,T,S), of T queries and S keys
template <class Number>
std::vector<Number> attention_multipliers(const Dropout& dropout, int layer, DropoutSite site, size_t B, size_t H,
                                          size_t T, size_t S) {
  std::vector<float> m(B * H * T * S, 1);
  for (size_t row = 0; row < B * H * T && dropout.p > 0; ++row) {
    const size_t i = row % T, h = row / T % H, b = row / T / H;
    dropout_line(&m[row * S], dropout.attention_key(int(b), layer, int(h), int(i), site), dropout.p, 0, int(S));
  }
  return {m.begin(), m.end()};
}

}  // namespace textbook
