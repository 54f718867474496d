#pragma once
// Operands of attention's products. Used by attention and by diagnostics.

#include <algorithm>
#include <cstddef>

#include "layers/kernels/gemm.hpp"
#include "scores.hpp"
#include "shape.hpp"

// Turns tiles into operands of products: words if products read words, else the tiles themselves.
class Operands {
 public:
  // `room` holds room() floats.
  Operands(const AttentionShape& shape, float* room) : words_(shape.words), room_(room) {}

  // The room for so many operands of a tile by head_dim, and of a tile by a tile.
  static size_t room(const AttentionShape& shape, int rows, int squares) {
    const int D = shape.head_dim;
    return shape.words ? rows * std::max(words_size(kTile, D), words_size(D, kTile)) +
                             squares * words_size(kTile, kTile)
                       : 0;
  }
  MatrixView left(MatrixView a, int M, int K) { return words_ ? rounded(a, M, K) : a; }
  MatrixView right(MatrixView b, int K, int N) {
    if (!words_) return b;
    const MatrixView turned = rounded({b.data, b.col, b.row}, N, K);
    return {turned.data, turned.col, turned.row};
  }
  void multiply(MatrixRows c, MatrixView a, MatrixView b, int M, int N, int K, bool add, Triangle needed = {}) const {
    (words_ ? gemm_words : gemm_serial)(c, a, b, M, N, K, add, needed);
  }

 private:
  MatrixView rounded(MatrixView lines, int count, int k) {
    float* to = room_;
    room_ += words_size(count, k);
    return to_words(to, lines, count, k);
  }

  bool words_;
  float* room_;  // what is left of it
};
