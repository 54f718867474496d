#pragma once
// Turns a row of products q[i]·k[j] into scores, by the formulas of attention.hpp, and says which keys a query sees.
// Used by attention and by diagnostics. The classifier uses the cap for its logits.

#include <algorithm>
#include <cmath>

#include "layers/kernels/simd.hpp"
#include "shape.hpp"

// A query sees the keys k0 + begin, ..., k0 + end − 1 of a tile that starts at key k0.
struct Seen {
  int begin, end;
  int count() const { return end - begin; }
};
inline Seen keys_seen(int at, int k0, int keys, int window) {  // by the query at position `at`
  const int begin = window > 0 ? std::clamp(at - k0 - window + 1, 0, keys) : 0;
  return {begin, std::clamp(at - k0 + 1, begin, keys)};
}

constexpr int kTile = 64;  // queries, and keys, in a tile of the scores

// The first tile of keys that any query from position `at` on sees.
inline int first_tile(int at, int window) { return window > 0 ? std::max(0, at - window + 1) / kTile * kTile : 0; }

// x ← c·tanh(scale·x/c). slopes, unless null, becomes 1 − tanh², the factor on the gradient.
inline void soft_cap(float* x, float* slopes, float scale, float cap, int n) {
  simd::sweep(n, [=](int i, int lanes) {
    const simd::Vec t = simd::tanh(simd::load(x + i, lanes) * (scale / cap));
    simd::store(x + i, t * cap, lanes);
    if (slopes) simd::store(slopes + i, 1.f - t * t, lanes);
  });
}

// score = scale·product − slope·(i − j). With a cap, the products have been capped before.
struct Scores {
  float scale, slope;
  bool biased;
  float distance;  // i − j of the row's first key

  Scores(const AttentionShape& shape, int h, int first_distance)
      : scale(shape.cap > 0 ? 1 : shape.scale), slope(shape.slopes ? shape.slopes[h] : 0), biased(shape.slopes),
        distance(static_cast<float>(first_distance)) {}

  simd::Vec bias(int j) const { return slope * (simd::counting() + (static_cast<float>(j) - distance)); }

  // Calls f(j, lanes, score − shift) for the n keys of a row, one vector at a time. Lanes beyond the last key are −∞.
  // multiply_add() rounds both kinds alike, whatever the compiler does with a product and a sum.
  template <class F>
  void each(const float* row, float shift, int n, F f) const {
    const simd::Vec factor = simd::all(scale), less = simd::all(-shift);
    simd::sweep(n, [&](int j, int lanes) {
      f(j, lanes, simd::multiply_add(biased ? less + bias(j) : less, simd::load(row + j, lanes, -INFINITY), factor));
    });
  }

  float largest(const float* row, int n) const {
    simd::Vec top = simd::all(biased ? -INFINITY : row[0]);
    if (biased) {
      each(row, 0, n, [&](int, int, simd::Vec s) { top = simd::max(s, top); });
      return simd::max(top);
    }
    simd::sweep(n, [&](int j, int lanes) { top = simd::max(simd::load(row + j, lanes, row[0]), top); });
    return scale * simd::max(top);
  }
};
