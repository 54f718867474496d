#pragma once
//   x, multiplier (n)
//   forward   x ← x·multiplier        multiplier is 0 with probability p, else 1/(1 − p)
//   backward  dx ← dx·multiplier      in place, and with the same multipliers

#include <cstddef>

namespace textbook {

template <class Number>
void dropout_forward(Number* x, const Number* multiplier, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] *= multiplier[i];
}

template <class Number>
void dropout_backward(Number* dx, const Number* multiplier, size_t n) {
  for (size_t i = 0; i < n; ++i) dx[i] *= multiplier[i];  // x ← x·multiplier
}

}  // namespace textbook
