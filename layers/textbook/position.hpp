#pragma once
// Positional encodings: learned, sinusoidal, RoPE and ALiBi.

#include <bit>
#include <cmath>
#include <cstddef>

namespace textbook {

// ---- added to the embedding ----------------------------------------------------------------------------------

//   x (B,T,C)
//   learned     weight (context,C)
//     forward   x[b,t,:] += weight[first + t,:]
//     backward  dweight[t,:] += Σ_b dx[b,t,:]                    dx does not change
//   sinusoidal  no parameters
//     forward   as learned, with weight[t,2i] = sin φ and weight[t,2i + 1] = cos φ, φ = t·10000^(-2i/C)

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

// ---- RoPE ----------------------------------------------------------------------------------------------------

// RoPE rotates pairs of numbers of each head, in place.
//   x         B·T rows, `stride` numbers apart; each begins with `heads` heads of D numbers
//   (a, b)    the numbers i and i + rotated/2 of a head; the numbers after `rotated` stay
//   φ         the angle at position t: t·theta^(-2i/rotated)
//   forward   (a, b) ← (a·cos φ − b·sin φ, a·sin φ + b·cos φ)
//   backward  (da, db) ← (da·cos φ + db·sin φ, db·cos φ − da·sin φ)       the transpose, a rotation by −φ

struct Rope {
  double theta;
  size_t rotated;
};

template <class Number>
void rope_forward(Number* x, const Rope& rope, size_t first, size_t B, size_t T, size_t heads, size_t D,
                  size_t stride) {
  const auto [theta, rotated] = rope;
  for (size_t n = 0; n < B * T; ++n)
    for (size_t h = 0; h < heads; ++h)
      for (size_t i = 0; i < rotated / 2; ++i) {
        const double angle = (first + n % T) * std::pow(theta, -2.0 * i / rotated);
        const Number cosine = std::cos(angle), sine = std::sin(angle);
        Number* pair = x + n * stride + h * D + i;
        const Number a = pair[0], b = pair[rotated / 2];
        pair[0] = a * cosine - b * sine;
        pair[rotated / 2] = a * sine + b * cosine;
      }
}

template <class Number>
void rope_backward(Number* dx, const Rope& rope, size_t B, size_t T, size_t heads, size_t D, size_t stride) {
  const auto [theta, rotated] = rope;
  for (size_t n = 0; n < B * T; ++n)
    for (size_t h = 0; h < heads; ++h)
      for (size_t i = 0; i < rotated / 2; ++i) {
        const double angle = (n % T) * std::pow(theta, -2.0 * i / rotated);
        const Number cosine = std::cos(angle), sine = std::sin(angle);
        Number* pair = dx + n * stride + h * D + i;
        const Number da = pair[0], db = pair[rotated / 2];
        pair[0] = da * cosine + db * sine;      // a → (a·cos, a·sin)
        pair[rotated / 2] = db * cosine - da * sine;  // b → (−b·sin, b·cos)
      }
}

// ---- ALiBi ---------------------------------------------------------------------------------------------------

// ALiBi subtracts slope·(i − j) from the score of query i and key j (`score` in attention.hpp). It has no parameters.
//   slope of head h of H    2^(-8(h + 1)/H) if H is a power of two. Otherwise the first G heads, G the power of two
//                           below H, have the slopes of G heads; the others have every second slope of 2G heads.

inline double alibi_slope(size_t h, size_t H) {
  const size_t power = std::bit_floor(H);
  return h < power ? std::pow(2., -8. * (h + 1) / power) : alibi_slope(2 * (h - power), 2 * power);
}

}  // namespace textbook
