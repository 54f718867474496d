#pragma once
// What a product's packed panels consist of, and how they are packed. Only gemm.cpp and its tiles include this file.

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "numbers.hpp"
#include "simd.hpp"

namespace {

using simd::Vec;
using simd::W;

constexpr int kStrip = 16;  // words of each panel that are packed before the next strip

// Sizes of a register tile of vectors, and of the blocks around it. The sums of a tile, NV vectors of B and one of A
// must fit into the registers. There are 32 on AVX-512 and NEON and 16 elsewhere; without a fused multiply-add, a
// product takes one of them.
struct VectorTile {
#if defined(__AVX512F__) || defined(__aarch64__)
  static constexpr int MR = 8, NV = 3;
#elif defined(__FMA__)
  static constexpr int MR = 4, NV = 3;
#else
  static constexpr int MR = 4, NV = 2;
#endif
  static constexpr int KC = 256;  // words; a KC × MR panel of A and a KC × NR panel of B fit in L1
  static constexpr int kBlock = 16 * MR * KC;  // words of A that are packed at a time
  static constexpr int kSlice = 144 * 1024;    // words of B that are packed at a time: half of a 1 MB L2
  static constexpr int kSquare = 1;  // rows of A and words are packed and multiplied in multiples of it
  static constexpr int kOperand = 1;  // numbers in a float of the operands
};

// A packed panel consists of 32-bit words, each with kSteps consecutive numbers along k. Numbers beyond the matrix are
// zero.
struct Fp32 : VectorTile {
  static constexpr int kSteps = 1;
  // W words of one line along k; n numbers are left.
  template <class Number>
  static Vec along(const Number* p, int n) { return simd::load(p, std::min(n, W)); }
  // One word from each of W adjacent lines; `step` is the distance along k. n lines and k numbers are left.
  template <class Number>
  static Vec across(const Number* p, size_t, int n, int) { return simd::load(p, std::min(n, W)); }
  static Vec multiply_add(Vec sum, Vec a, Vec b) { return simd::multiply_add(sum, a, b); }
};

#if defined(__AVX512BF16__)
struct Bf16 : VectorTile {
  static constexpr int kSteps = 2, KC = 512;
  static constexpr int kBlock = 512 * 1024, kSlice = NV * W * KC;  // 2 MB, and one panel
  template <class Number>
  static Vec along(const Number* p, int n) {
    return simd::bf16_neighbors(simd::load(p, std::min(n, W)), n > W ? simd::load(p + W, std::min(n - W, W)) : Vec{});
  }
  template <class Number>
  static Vec across(const Number* p, size_t step, int n, int k) {
    return simd::bf16_pairs(simd::load(p, std::min(n, W)), k > 1 ? simd::load(p + step, std::min(n, W)) : Vec{});
  }
  static Vec multiply_add(Vec sum, Vec a, Vec b) { return simd::bf16_dot(sum, a, b); }
};
#else
using Bf16 = Fp32;
#endif

// Operands that consist of such words.
struct Words : Fp32 {
  static constexpr int kOperand = Bf16::kSteps;
  static Vec multiply_add(Vec sum, Vec a, Vec b) { return Bf16::multiply_add(sum, a, b); }
};

// The same words for AMX. Two by two tile registers of W × W sums are the register tile. KC is large, because reading
// panels from L2 costs less than adding to C once more.
struct Amx : Bf16 {
  static constexpr int MR = 2 * W, NV = 2, KC = 384;
  static constexpr int kSlice = NV * W * KC;                                          // one panel
  static constexpr int kBlock = VectorTile::kBlock + VectorTile::kSlice - kSlice;  // a third of a 2 MB L2
  static constexpr int kSquare = W;
  template <class Number>
  static Vec across(const Number* p, size_t step, int n, int k) {
    return k > 0 ? Bf16::across(p, step, n, k) : Vec{};
  }
};

// How a product with few rows of A reads lines of B: `along` loads W words of them, each of kNumbers numbers, and
// Row::add adds the products of word w of a row and of W lines.
template <class Format, class Number>
struct LinesOf {
  static constexpr int kNumbers = Format::kSteps;
  static Vec along(const Number* p, int n) { return Format::along(p, n); }
  struct Row {
    alignas(64) float a[W];
    Row(const float* p, int n) { simd::store(a, Format::along(p, n)); }
    Vec add(Vec sum, int w, Vec b) const { return Format::multiply_add(sum, simd::all(a[w]), b); }
  };
};

// Pairs of bf16 numbers are widened after they were turned, which takes half as many steps.
template <>
struct LinesOf<Fp32, Bfloat16> {
  static constexpr int kNumbers = 2;
  static Vec along(const Bfloat16* p, int n) {
    simd::VecU words = {};
    if (n >= 2 * W) std::memcpy(&words, p, sizeof words);
    else std::memcpy(&words, p, n * sizeof *p);
    return (Vec)words;
  }
  struct Row {
    alignas(64) float a[2 * W];
    Row(const float* p, int n) {
      simd::store(a, simd::load(p, std::min(n, W)));
      simd::store(a + W, n > W ? simd::load(p + W, std::min(n - W, W)) : Vec{});
    }
    Vec add(Vec sum, int w, Vec b) const {
      const Vec first = (Vec)((simd::VecU)b << 16), second = (Vec)((simd::VecU)b & 0xffff0000u);
      return Fp32::multiply_add(Fp32::multiply_add(sum, simd::all(a[2 * w]), first), simd::all(a[2 * w + 1]), second);
    }
  };
};

constexpr int round_up(int n, int step) { return (n + step - 1) / step * step; }

template <class Format>
int words_of(int k) { return round_up((k + Format::kSteps - 1) / Format::kSteps, Format::kSquare); }

// ---- packing ---------------------------------------------------------------------------------------------

// Packs lines that are adjacent in memory, as in the panel. `groups` is the number of whole groups if known, else 0.
template <class Format, int group, int groups, class Number>
void pack_beside(float* to, int width, const Number* from, size_t step, int lines, int k) {
  constexpr int kSteps = Format::kSteps;
  for (int w = 0; w < words_of<Format>(k); ++w) {
    const auto take = [&](int i, int n) {  // one load if n is known to be a whole group
      simd::store(to + w * width + i, Format::across(from + w * kSteps * step + i, step, n, k - w * kSteps), group);
    };
    for (int s = 0; s < kSteps; ++s)  // cache lines of the next strip
      for (int i = 0; i < lines; i += 16) __builtin_prefetch(from + ((w + kStrip) * kSteps + s) * step + i);
    const int whole = groups ? groups * group : lines / group * group;
#pragma GCC unroll 3
    for (int i = 0; i < whole; i += group) take(i, group);
    if (!groups && whole < lines) take(whole, lines - whole);
  }
}

// Packs lines along k: transposes `group` lines × W words in registers.
template <class Format, int group, class Number>
void pack_turned(float* to, int width, const Number* from, size_t line, int lines, int k) {
  constexpr int kSteps = Format::kSteps, kTurned = W / group;  // words of a group that fill a vector
  const int words = words_of<Format>(k);
  for (int i0 = 0; i0 < lines; i0 += group)
    for (int w0 = 0; w0 < words; w0 += W) {
      Vec v[group];
#pragma GCC unroll 16
      for (int i = 0; i < group; ++i) {
        const Number* next = from + (i0 + i) * line + w0 * kSteps;
        for (int s = 0; s < kSteps; ++s) __builtin_prefetch(next + group * line + s * W);
        v[i] = i0 + i < lines ? Format::along(next, k - w0 * kSteps) : Vec{};
      }
      simd::turn(v);
#pragma GCC unroll 16
      for (int q = 0; q < group; ++q)
        if (const int left = (words - w0) * group - q * W; left > 0)
          simd::store(to + (w0 + q * kTurned) * width + i0, v[q], std::min(W, left));
    }
}

// Packs `lines` ≤ width lines (rows of A, columns of B) of k numbers each: word w of line i goes to
// to[w·width + i]. Lines are taken in groups of up to W; the last group is padded with zeros. `line` and `step` are the
// distances in memory between lines and along k; one of them is 1.
template <class Format, int group, class Number>
void pack(float* to, int width, const Number* from, size_t line, size_t step, int lines, int k) {
  step == 1 ? pack_turned<Format, group>(to, width, from, line, lines, k)
  : lines == width && width == group ? pack_beside<Format, group, 1>(to, width, from, step, lines, k)
  : lines == width && width == Format::NV * group
      ? pack_beside<Format, group, Format::NV>(to, width, from, step, lines, k)
      : pack_beside<Format, group, 0>(to, width, from, step, lines, k);
}

// Packs rows of A for AMX: squares of W rows by W words, row after row. Word w of row i goes to
// to[w / W · W · MR + i · W + w % W].
template <bool along>
void pack_squares(float* to, const float* from, size_t line, size_t step, int lines, int k) {
  constexpr int kSteps = Amx::kSteps;
  for (int w = 0; w < words_of<Amx>(k); w += W)
    for (int i0 = 0; i0 < lines; i0 += W) {
      Vec v[W];
#pragma GCC unroll 16
      for (int i = 0; i < W; ++i)
        if constexpr (along) {
          const float* next = from + (i0 + i) * line + w * kSteps;
          v[i] = i0 + i < lines ? Amx::along(next, k - w * kSteps) : Vec{};
        } else {
          v[i] = Amx::across(from + (w + i) * kSteps * step + i0, step, lines - i0, k - (w + i) * kSteps);
        }
      if (!along) simd::turn(v);
#pragma GCC unroll 16
      for (int i = 0; i < W; ++i) simd::store(to + w * Amx::MR + (i0 + i) * W, v[i]);
    }
}

// Word w of line i goes to to[i·row + w]. The lines run along k.
template <class Format>
void round_rows(float* to, size_t row, const float* from, size_t line, int lines, int k) {
  const int words = words_of<Format>(k);
  for (int i = 0; i < lines; ++i)
    for (int w = 0; w < words; w += W) {
      const int numbers = w * Format::kSteps;
      for (int s = 0; s < Format::kSteps; ++s) __builtin_prefetch(from + (i + 8) * line + numbers + s * W);
      simd::store(to + i * row + w, Format::along(from + i * line + numbers, k - numbers), std::min(W, words - w));
    }
}

// Packs rows of A as the format's tile reads them.
template <class Format>
void pack_rows(float* to, const float* from, size_t line, size_t step, int lines, int k) {
  if constexpr (Format::kSquare == 1)
    pack<Format, std::min(Format::MR, W)>(to, Format::MR, from, line, step, lines, k);
  else
    (step == 1 ? pack_squares<true> : pack_squares<false>)(to, from, line, step, lines, k);
}

}  // namespace
