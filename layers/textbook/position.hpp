#pragma once
// Positional encodings: learned, sinusoidal, RoPE, ALiBi and T5's relative positions.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

#include "layers/embedding/position.hpp"

namespace textbook {

// ---- positions -----------------------------------------------------------------------------------------------

// The position of each token (B,T). Token t of a row stands at first + t. If a row holds several examples, a token
// stands at t − begins[b,t], so every example starts at 0.

inline std::vector<size_t> positions(size_t B, size_t T, size_t first = 0, const int* begins = nullptr) {
  std::vector<size_t> position(B * T);
  for (size_t n = 0; n < B * T; ++n) position[n] = first + n % T - (begins ? begins[n] : 0);
  return position;
}

// ---- added to the embedding ----------------------------------------------------------------------------------

//   x (N,C)   p (N): the positions of the tokens
//   learned     weight (context,C)
//     forward   x[n,:] += weight[p[n],:]
//     backward  dweight[p[n],:] += dx[n,:]                       dx does not change
//   sinusoidal  no parameters
//     forward   as learned, with weight[t,2i] = sin φ and weight[t,2i + 1] = cos φ, φ = t·10000^(-2i/C)

template <class Number>
void learned_position_forward(Number* x, const Number* weight, const std::vector<size_t>& p, size_t C) {
  for (size_t n = 0; n < p.size(); ++n)
    for (size_t c = 0; c < C; ++c) x[n * C + c] += weight[p[n] * C + c];
}

template <class Number>
void learned_position_backward(Number* dweight, const Number* dx, const std::vector<size_t>& p, size_t C) {
  for (size_t n = 0; n < p.size(); ++n)
    for (size_t c = 0; c < C; ++c) dweight[p[n] * C + c] += dx[n * C + c];  // x += weight
}

template <class Number>
void sinusoidal_position_forward(Number* x, const std::vector<size_t>& p, size_t C) {
  for (size_t n = 0; n < p.size(); ++n)
    for (size_t c = 0; c < C; ++c) {
      const double angle = p[n] / std::pow(10000., double(c / 2 * 2) / C);
      x[n * C + c] += c % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
}

// ---- RoPE ----------------------------------------------------------------------------------------------------

// RoPE rotates pairs of numbers of each head, in place.
//   x         N rows, `stride` numbers apart; each begins with `heads` heads of D numbers
//   p (N)     the positions of the tokens
//   (a, b)    the numbers i and i + rotated/2 of a head; the numbers after `rotated` stay
//   φ         the angle at position t = p[n]: t·f, where f = theta^(-2i/rotated), or slower if the model stretches it
//             (longrope divides f by factors[i]: examples longer than the original context have other factors)
//   m         the magnitude: 1 if the model does not stretch f
//   forward   (a, b) ← m·(a·cos φ − b·sin φ, a·sin φ + b·cos φ)
//   backward  (da, db) ← m·(da·cos φ + db·sin φ, db·cos φ − da·sin φ)       the transpose, a rotation by −φ

struct Rope {
  double theta;
  size_t rotated;
  RopeScaling scaling = RopeScaling::none;
  double s = 1, original = 0, slow = 0, fast = 0, magnitude = 1;
  bool truncate = true;
  std::vector<double> factors = {};
};

// Of a layer, for an example of this many tokens.
inline Rope rope_of(const Config& c, int layer, size_t length) {
  const size_t rotated = c.rope_dims();
  if (c.rotates_locally(layer)) return {*c.window_rope_theta, rotated};
  if (c.rope_scaling == RopeScaling::none) return {c.rope_theta, rotated};
  Rope rope = {c.rope_theta, rotated, c.rope_scaling, c.rope_factor, double(c.rope_original), c.rope_slow, c.rope_fast,
               *c.rope_magnitude, c.rope_truncate};
  if (c.rope_scaling == RopeScaling::longrope)
    rope.factors = rope_factors(length > size_t(c.rope_original) ? c.rope_long : c.rope_short);
  return rope;
}

// How far pair i turns from one position to the next. Stretching divides it by s, or a share of it: all of a pair that
// makes fewer than `slow` turns in the original context, and nothing of one that makes more than `fast`.
inline double rope_frequency(const Rope& rope, size_t i) {
  const double pi = std::acos(-1.), f = std::pow(rope.theta, -2.0 * i / rope.rotated);
  if (!rope.factors.empty()) return f / rope.factors[i];
  const auto between = [](double x, double none, double all) { return std::clamp((x - none) / (all - none), 0., 1.); };
  const auto pair = [&](double turns) {  // theta^(-2i/rotated)·original = 2π·turns, solved for i
    return rope.rotated / 2. * std::log(rope.original / (2 * pi * turns)) / std::log(rope.theta);
  };
  double share = 0;
  if (rope.scaling == RopeScaling::linear) share = 1;
  if (rope.scaling == RopeScaling::llama3) share = between(f * rope.original / (2 * pi), rope.fast, rope.slow);
  if (rope.scaling == RopeScaling::yarn) {
    const double fast = pair(rope.fast), slow = pair(rope.slow);
    const double none = std::max(0., rope.truncate ? std::floor(fast) : fast);
    const double all = std::min(rope.rotated - 1., rope.truncate ? std::ceil(slow) : slow);
    share = between(i, none, all > none ? all : none + .001);
  }
  return f * (share / rope.s + 1 - share);
}

template <class Number>
void rope_forward(Number* x, const Rope& rope, const std::vector<size_t>& p, size_t heads, size_t D, size_t stride) {
  const size_t rotated = rope.rotated;
  for (size_t n = 0; n < p.size(); ++n)
    for (size_t h = 0; h < heads; ++h)
      for (size_t i = 0; i < rotated / 2; ++i) {
        const double angle = p[n] * rope_frequency(rope, i);
        const Number cosine = rope.magnitude * std::cos(angle), sine = rope.magnitude * std::sin(angle);
        Number* pair = x + n * stride + h * D + i;
        const Number a = pair[0], b = pair[rotated / 2];
        pair[0] = a * cosine - b * sine;
        pair[rotated / 2] = a * sine + b * cosine;
      }
}

template <class Number>
void rope_backward(Number* dx, const Rope& rope, const std::vector<size_t>& p, size_t heads, size_t D, size_t stride) {
  const size_t rotated = rope.rotated;
  for (size_t n = 0; n < p.size(); ++n)
    for (size_t h = 0; h < heads; ++h)
      for (size_t i = 0; i < rotated / 2; ++i) {
        const double turned = p[n] * rope_frequency(rope, i);  // by forward
        const Number cosine = rope.magnitude * std::cos(turned), sine = rope.magnitude * std::sin(turned);
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

// ---- relative positions --------------------------------------------------------------------------------------

// Relative positions add a learned number to each score (`attention_forward` in attention.hpp). It depends on the head
// and on the bucket of the distance from query i to key j.
//   table (buckets,H)
//   causal         the first half of the buckets has one distance each: 0, 1, ..., e − 1. The others are equally wide
//                  in log d, from e to `farthest`, and the last has all distances beyond
//   bidirectional  keys before the query have half of the buckets by this rule, keys after it the other half

struct RelativeRule {
  size_t buckets = 0;
  double farthest = 0;
  bool causal = true;
};

inline size_t relative_bucket(size_t i, size_t j, const RelativeRule& rule) {
  const size_t count = rule.causal ? rule.buckets : rule.buckets / 2, first = j > i && !rule.causal ? count : 0;
  const size_t exact = count / 2, d = j > i ? j - i : i - j;
  if (d < exact) return first + d;
  const double share = std::log(double(d) / exact) / std::log(rule.farthest / exact);
  return first + std::min(count - 1, exact + size_t(share * (count - exact)));
}

}  // namespace textbook
