#pragma once
// Turns products q[i]·k[j] into scores (formulas in attention.hpp), and decides which keys a query sees. Used by
// attention and by diagnostics.

#include <algorithm>
#include <cmath>

#include "layers/kernels/elementwise.hpp"
#include "shape.hpp"

constexpr int kTile = 64;  // queries and keys in a tile of the scores

// Returns the first key of the first tile that a query at position `at` or later sees.
inline int first_tile(int at, int window) { return window > 0 ? std::max(0, at - window + 1) / kTile * kTile : 0; }

// The scores of W neighboring queries with a tile of keys. Row j of the tile holds the products of key j with these
// queries, one query per lane, so all lanes take a maximum or a sum over keys at once. `row` is the distance between
// rows.
//
// score = scale·product − slope·(i − j). With a cap, call cap_columns() on the products first.
struct Scores {
  int begin, end;          // the keys that at least one of the queries sees
  int all_begin, all_end;  // the keys that all W queries see
  int window;
  float scale, slope;
  bool biased;
  simd::Vec at;  // positions of the queries, counted from the tile's first key

  // `first` is the position of the first query, counted from the tile's first key.
  Scores(const AttentionShape& shape, int h, int first, int keys)
      : window(shape.window > 0 ? shape.window : kUnlimited), scale(shape.cap > 0 ? 1 : shape.scale),
        slope(shape.slopes ? shape.slopes[h] : 0), biased(shape.slopes),
        at(simd::counting() + static_cast<float>(first)) {
    begin = std::clamp(first - window + 1, 0, keys);
    end = std::clamp(first + simd::W, begin, keys);
    all_begin = first + simd::W - window;
    all_end = first + 1;
  }

  // Calls f(j, score − shift) for all keys that at least one of the queries sees. The score is −∞ for a query that does
  // not see key j. A score is rounded before the shift, so that the largest minus itself is 0. Otherwise large scores
  // fail: near 2³¹ floats are 256 apart, and the exponential of an unrounded score minus a rounded one would be 0 or ∞.
  // multiply_add() makes all scores round alike, whatever the compiler does with a product and a sum.
  template <class F>
  void each(const float* products, size_t row, simd::Vec shift, F f) const {
    const simd::Vec factor = simd::all(scale);
    for (int j = begin; j < end; ++j) {
      const simd::Vec distance = at - static_cast<float>(j), product = simd::load(products + j * row);
      simd::Vec score = simd::multiply_add(biased ? -slope * distance : simd::Vec{}, product, factor) - shift;
      if (j < all_begin || j >= all_end) score = seen(distance) ? score : simd::all(-INFINITY);
      f(j, score);
    }
  }

 private:
  static constexpr int kUnlimited = 1 << 28;

  simd::VecI seen(simd::Vec distance) const { return (distance >= 0.f) & (distance < static_cast<float>(window)); }
};

// Caps the products of W queries with a tile of keys. Unless `slopes` is null, writes the slopes for key j to
// slopes[j·W ...].
inline void cap_columns(float* products, size_t row, float* slopes, const AttentionShape& shape, int keys) {
  for (int j = 0; j < keys; ++j)
    soft_cap(products + j * row, slopes ? slopes + j * simd::W : nullptr, shape.scale, shape.cap, simd::W);
}
