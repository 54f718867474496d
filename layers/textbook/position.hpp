#pragma once
//   learned   x (B,T,C)   weight (context,C)
//     forward   x[b,t,:] += weight[first + t,:]
//     backward  dweight[t,:] += Σ_b dx[b,t,:]                    dx passes on unchanged
//   sinusoidal  the same with weight[t,2i] = sin φ and weight[t,2i + 1] = cos φ, φ = t·10000^(-2i/C)
//   RoPE      x: B·T rows, `stride` apart, each starting with `heads` heads of D numbers; in place, the pair
//             (a, b) at (i, i + R/2) of the row at position t is turned by the angle φ = t·theta^(-2i/R), R ≤ D
//     forward   (a, b) ← (a·cos φ − b·sin φ, a·sin φ + b·cos φ)
//     backward  (da, db) ← (da·cos φ + db·sin φ, db·cos φ − da·sin φ)       the transpose turns back

//   ALiBi     slopes of H heads: 2^(-8(h + 1)/H) where H is a power of two; else those of the power of two below, and
//             then every second one of twice as many heads

#include <bit>
#include <cmath>
#include <cstddef>

namespace textbook {

template <class Number>
void learned_position_forward(Number* x, const Number* weight, size_t first, size_t B, size_t T, size_t C) {
  for (size_t b = 0; b < B; ++b)
    for (size_t t = 0; t < T; ++t)
      for (size_t c = 0; c < C; ++c) x[(b * T + t) * C + c] += weight[(first + t) * C + c];
}

template <class Number>
void learned_position_backward(Number* dweight, const Number* dx, size_t B, size_t T, size_t C) {
  for (size_t b = 0; b < B; ++b)
    for (size_t t = 0; t < T; ++t)
      for (size_t c = 0; c < C; ++c) dweight[t * C + c] += dx[(b * T + t) * C + c];  // x += weight
}

template <class Number>
void sinusoidal_position_forward(Number* x, size_t first, size_t B, size_t T, size_t C) {
  for (size_t b = 0; b < B; ++b)
    for (size_t t = 0; t < T; ++t)
      for (size_t c = 0; c < C; ++c) {
        const double angle = (first + t) / std::pow(10000., double(c / 2 * 2) / C);
        x[(b * T + t) * C + c] += c % 2 == 0 ? std::sin(angle) : std::cos(angle);
      }
}

inline double alibi_slope(size_t h, size_t H) {
  const size_t power = std::bit_floor(H);
  return h < power ? std::pow(2., -8. * (h + 1) / power) : alibi_slope(2 * (h - power), 2 * power);
}

template <class Number>
void rope_forward(Number* x, double theta, size_t first, size_t B, size_t T, size_t heads, size_t D,
                  size_t R, size_t stride) {
  for (size_t n = 0; n < B * T; ++n)
    for (size_t h = 0; h < heads; ++h)
      for (size_t i = 0; i < R / 2; ++i) {
        const double angle = (first + n % T) * std::pow(theta, -2.0 * i / R);
        const Number cosine = std::cos(angle), sine = std::sin(angle);
        Number* pair = x + n * stride + h * D + i;
        const Number a = pair[0], b = pair[R / 2];
        pair[0] = a * cosine - b * sine;
        pair[R / 2] = a * sine + b * cosine;
      }
}

template <class Number>
void rope_backward(Number* dx, double theta, size_t B, size_t T, size_t heads, size_t D, size_t R,
                   size_t stride) {
  for (size_t n = 0; n < B * T; ++n)
    for (size_t h = 0; h < heads; ++h)
      for (size_t i = 0; i < R / 2; ++i) {
        const double angle = (n % T) * std::pow(theta, -2.0 * i / R);
        const Number cosine = std::cos(angle), sine = std::sin(angle);
        Number* pair = dx + n * stride + h * D + i;
        const Number da = pair[0], db = pair[R / 2];
        pair[0] = da * cosine + db * sine;      // a → (a·cos, a·sin)
        pair[R / 2] = db * cosine - da * sine;  // b → (−b·sin, b·cos)
      }
}

}  // namespace textbook
