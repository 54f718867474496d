#pragma once
// The innermost loops of a product, from packed panels to a tile of C. Only gemm.cpp includes this file.

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "amx.hpp"
#include "packing.hpp"

namespace {

// c = [c +] [bias +] sum, in the first `lanes` columns.
inline void finish(Vec sum, float* c, const float* bias, bool add, int lanes) {
  if (add) sum += simd::load(c, lanes);
  if (bias) sum += simd::load(bias, lanes);
  simd::store(c, sum, lanes);
}

// Where a tile's sums go.
struct Target {
  float* c;
  size_t ldc;
  const float* bias;
  bool add;
  int rows, columns;
};

// The input of a tile: panels packed by pack(), or the matrix itself. Word w of A's row i is at a[i + w·a_next] if the
// rows of A are adjacent, else at a[i·a_next + w]. Words w of B's columns are at b[w·b_next].
struct Source {
  const float *a, *b;
  size_t a_next, b_next;
};

// Computes rows × (vectors·W) sums over `words` words.
template <class Format, bool a_beside, int rows, int vectors>
void tile(const Target& t, const Source& source, int words) {
  const float *a = source.a, *b = source.b;
  const size_t row = a_beside ? 1 : source.a_next, word = a_beside ? source.a_next : 1;
  if (t.add)  // fetch C early, because it may be in slow memory
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < vectors; ++j) __builtin_prefetch(t.c + i * t.ldc + j * W, 1);
  Vec sum[rows][vectors];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < vectors; ++j) sum[i][j] = Vec{};
#pragma GCC unroll 4
  for (int w = 0; w < words; ++w, a += word, b += source.b_next) {
    Vec right[vectors];
    for (int j = 0; j < vectors; ++j) right[j] = simd::load(b + j * W);
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      const Vec left = simd::all(a[i * row]);
      for (int j = 0; j < vectors; ++j) sum[i][j] = Format::multiply_add(sum[i][j], left, right[j]);
    }
  }
#pragma GCC unroll 3
  for (int j = 0; j < vectors; ++j) {
    const int lanes = std::min(W, t.columns - j * W);
    const float* bias = t.bias ? t.bias + j * W : nullptr;
    if (lanes == W && !bias && !t.add) {
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i) simd::store(t.c + i * t.ldc + j * W, sum[i][j]);
    } else {
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i) finish(sum[i][j], t.c + i * t.ldc + j * W, bias, t.add, lanes);
    }
  }
}

// The same in high × wide tile registers. Only vectors can add to C or end in the middle of a row, so the sums may have
// to pass through memory.
template <int high, int wide>
void tile_of_squares(const Target& t, const Source& source, int words) {
  for (int i = 0; i < t.rows; ++i)
    for (int j = 0; j < wide; ++j) __builtin_prefetch(t.c + i * t.ldc + j * W, 1);
  const auto multiply = [&](float* c, size_t ldc) {
    amx::multiply<high, wide>(c, ldc, source.a, source.b, source.b_next, words);
  };
  if (t.rows == high * W && t.columns == wide * W && !t.bias && !t.add) return multiply(t.c, t.ldc);
  alignas(64) float sums[high * W][wide * W];
  multiply(sums[0], wide * W);
  for (int i = 0; i < t.rows; ++i)
    for (int j = 0; j < wide; ++j)
      finish(simd::load(sums[i] + j * W), t.c + i * t.ldc + j * W, t.bias ? t.bias + j * W : nullptr, t.add,
             std::min(W, t.columns - j * W));
}

// A tile function for every number of rows, or of squares, and vectors, so that edges cost no more than their size.
using Tile = void (*)(const Target&, const Source&, int words);
template <class Format, bool a_beside, int high, int wide>
constexpr Tile tile_of() {
  if constexpr (Format::kSquare == 1) return tile<Format, a_beside, high, wide>;
  else return tile_of_squares<high, wide>;
}
template <class Format, bool a_beside, int... i>
constexpr auto tiles_of(std::integer_sequence<int, i...>) {
  return std::array{tile_of<Format, a_beside, i / Format::NV + 1, i % Format::NV + 1>()...};
}
template <class Format, bool a_beside>
constexpr auto kTiles = tiles_of<Format, a_beside>(
    std::make_integer_sequence<int, Format::MR / Format::kSquare * Format::NV>());

}  // namespace
