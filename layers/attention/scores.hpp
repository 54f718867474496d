#pragma once
// Turns products q[i]·k[j] into scores (formulas in attention.hpp), and decides which keys a query sees. Used by
// attention and by diagnostics.

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "layers/kernels/elementwise.hpp"
#include "shape.hpp"

constexpr int kTile = 64;  // queries and keys in a tile of the scores

// Returns the first key that query t of sequence b sees. `past` keys come before the first query.
inline int first_key(const AttentionShape& shape, int b, int t, int past = 0) {
  if (shape.crosses()) return shape.from[static_cast<size_t>(b) * shape.T + t];
  const int of_window = shape.window > 0 ? past + t - shape.window + 1 : 0;
  const int of_example = shape.begins ? shape.begins[static_cast<size_t>(b) * shape.T + t] : 0;
  return std::max({0, of_window, of_example});
}

// Returns the end of the keys that query t of sequence b sees.
inline int end_of_keys(const AttentionShape& shape, int b, int t, int past = 0) {
  if (shape.crosses()) return shape.to[static_cast<size_t>(b) * shape.T + t];
  if (shape.causal) return past + t + 1;
  const int of_window = shape.window > 0 ? std::min(shape.T, t + shape.window) : shape.T;
  if (!shape.begins) return of_window;
  const int* row = shape.begins + static_cast<size_t>(b) * shape.T;
  return static_cast<int>(std::upper_bound(row + t, row + of_window, row[t]) - row);  // begins never decrease
}

// The keys that a tile of queries sees: query i is at position `at` + i and sees the keys from[i], ..., to[i] − 1.
// Tiles before first_tile() and from end() on are unseen.
struct SeenKeys {
  int at;
  alignas(64) float from[kTile], to[kTile];  // never decrease; lanes after the last query repeat its keys

  SeenKeys(const AttentionShape& shape, int b, int q0, int past = 0) : at(past + q0) {
    for (int i = 0; i < kTile; ++i) {
      const int t = std::min(q0 + i, shape.T - 1);
      from[i] = static_cast<float>(first_key(shape, b, t, past));
      to[i] = static_cast<float>(end_of_keys(shape, b, t, past));
    }
  }
  int count(int i) const { return static_cast<int>(to[i] - from[i]); }
  int first_tile() const { return static_cast<int>(from[0]) / kTile * kTile; }
  int end() const { return static_cast<int>(to[kTile - 1]); }
};

// The scores of W neighboring queries with a tile of keys. Row j of the tile holds the products of key j with these
// queries, one query per lane, so all lanes take a maximum or a sum over keys at once. `row` is the distance between
// rows. Keys and positions are counted from the tile's first key.
//
// score = scale·product − slope·|i − j|, or scale·product + the bias of the distance i − j. With a cap, call
// cap_columns() on the products first.
struct Scores {
  int begin, end;          // the keys that at least one of the queries sees
  int all_begin, all_end;  // the keys that all W queries see
  float scale, slope;
  bool biased;
  const float* relative;   // the biases of the queries' distances from key 0, which precede those from later keys
  simd::Vec at, from, to;  // positions of the queries, and the keys that they see

  // The queries are i, ..., i + W − 1 of their tile; the keys are k0, ..., k0 + keys − 1.
  Scores(const AttentionShape& shape, int h, const SeenKeys& seen, int i, int k0, int keys)
      : scale(shape.cap > 0 ? 1 : shape.scale), slope(shape.slopes ? shape.slopes[h] : 0), biased(shape.slopes),
        relative(shape.relative.present() ? shape.relative.of(h) + (seen.at + i - k0) : nullptr),
        at(simd::counting() + static_cast<float>(seen.at + i - k0)),
        from(simd::load(seen.from + i) - static_cast<float>(k0)),
        to(simd::load(seen.to + i) - static_cast<float>(k0)) {
    begin = std::clamp(static_cast<int>(from[0]), 0, keys);
    end = std::clamp(static_cast<int>(to[simd::W - 1]), begin, keys);
    all_begin = static_cast<int>(from[simd::W - 1]);
    all_end = static_cast<int>(to[0]);
  }

  // Calls f(j, score − shift) for all keys that at least one of the queries sees. The score is −∞ for a query that does
  // not see key j. A score is rounded before the shift, so that the largest minus itself is 0. Otherwise large scores
  // fail: near 2³¹ floats are 256 apart, and the exponential of an unrounded score minus a rounded one would be 0 or ∞.
  // multiply_add() makes all scores round alike, whatever the compiler does with a product and a sum.
  template <class F>
  void each(const float* products, size_t row, simd::Vec shift, F f) const {
    relative ? each_key<true>(products, row, shift, f) : each_key<false>(products, row, shift, f);
  }

 private:
  template <bool kRelative, class F>
  void each_key(const float* products, size_t row, simd::Vec shift, F f) const {
    const simd::Vec factor = simd::all(scale);
    for (int j = begin; j < end; ++j) {
      const float key = static_cast<float>(j);
      const simd::Vec distance = simd::abs(at - key), product = simd::load(products + j * row);
      simd::Vec bias = biased ? -slope * distance : simd::Vec{};
      if constexpr (kRelative) bias = simd::load(relative - j);
      simd::Vec score = simd::multiply_add(bias, product, factor) - shift;
      if (j < all_begin || j >= all_end) score = ((from <= key) & (to > key)) ? score : simd::all(-INFINITY);
      f(j, score);
    }
  }
};

// Caps the products of W queries with a tile of keys. Unless `slopes` is null, writes the slopes for key j to
// slopes[j·W ...].
inline void cap_columns(float* products, size_t row, float* slopes, const AttentionShape& shape, int keys) {
  for (int j = 0; j < keys; ++j)
    soft_cap(products + j * row, slopes ? slopes + j * simd::W : nullptr, shape.scale, shape.cap, simd::W);
}
