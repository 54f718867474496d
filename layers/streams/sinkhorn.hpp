#pragma once
// Sinkhorn-Knopp: makes a positive matrix (S,S) doubly stochastic, for as many matrices as a vector has lanes.
//
//   forward   softmax of each row of a, + eps; then each column, each row, ..., each column divided by its sum + eps
//   backward  the same in reverse: y = x/Σx has dx = (dy − Σ dy·y)/Σx

#include "layers/kernels/simd.hpp"

// DeepSeek-V4's class in transformers adds this so that no sum is 0. mHC's paper adds nothing.
constexpr float kSinkhornEps = 1e-6f;
constexpr int kSinkhornRounds = 20;  // t_max of mHC, table 5

// A matrix (S,S) for each lane. Each round first scales the rows (out of a stream) and then the columns (into a stream)
// to sum to 1. The columns come last, which is what the paper's T_r does for its transposed matrix.
template <int S>
struct Sinkhorn {
  using Vec = simd::Vec;
  struct Round {
    Vec by_row[S][S], by_column[S][S];  // after each half
    Vec row[S], column[S];              // the divisors
  };
  Vec first[S][S];  // the softmax of each row
  Round rounds[kSinkhornRounds];

  const Vec (&out() const)[S][S] { return rounds[kSinkhornRounds - 1].by_column; }

  void forward(const Vec (&a)[S][S]) {
    for (int s = 0; s < S; ++s) {
      Vec top = a[s][0], sum = {};
      for (int t = 1; t < S; ++t) top = simd::max(top, a[s][t]);
      for (int t = 0; t < S; ++t) sum += first[s][t] = simd::exp(a[s][t] - top);
      for (int t = 0; t < S; ++t) first[s][t] = first[s][t] / sum;
    }
    for (int i = 0; i < kSinkhornRounds; ++i) {
      Round& r = rounds[i];
      for (int s = 0; s < S; ++s) {  // in the first round, softmax has normalized the rows
        r.row[s] = simd::all(i == 0 ? 1.f : kSinkhornEps);
        for (int t = 0; t < S && i > 0; ++t) r.row[s] += rounds[i - 1].by_column[s][t];
        for (int t = 0; t < S; ++t)
          r.by_row[s][t] = i == 0 ? first[s][t] + kSinkhornEps : rounds[i - 1].by_column[s][t] / r.row[s];
      }
      for (int t = 0; t < S; ++t) {
        r.column[t] = simd::all(kSinkhornEps);
        for (int s = 0; s < S; ++s) r.column[t] += r.by_row[s][t];
        for (int s = 0; s < S; ++s) r.by_column[s][t] = r.by_row[s][t] / r.column[t];
      }
    }
  }

  // d holds the gradient of out() before the call, and a's after it. y = x/Σx has dx = (dy − Σ dy·y)/Σx.
  void backward(Vec (&d)[S][S]) const {
    for (int i = kSinkhornRounds - 1; i >= 0; --i) {
      const Round& r = rounds[i];
      for (int t = 0; t < S; ++t) {
        Vec sum = {};
        for (int s = 0; s < S; ++s) sum += d[s][t] * r.by_column[s][t];
        for (int s = 0; s < S; ++s) d[s][t] = (d[s][t] - sum) / r.column[t];
      }
      for (int s = 0; s < S && i > 0; ++s) {
        Vec sum = {};
        for (int t = 0; t < S; ++t) sum += d[s][t] * r.by_row[s][t];
        for (int t = 0; t < S; ++t) d[s][t] = (d[s][t] - sum) / r.row[s];
      }
    }
    for (int s = 0; s < S; ++s) {
      Vec sum = {};
      for (int t = 0; t < S; ++t) sum += d[s][t] * first[s][t];
      for (int t = 0; t < S; ++t) d[s][t] = (d[s][t] - sum) * first[s][t];
    }
  }
};
