#pragma once
// Two ways of telling a transformer where a token stands.
//
//   learned   x (B,T,C)   weight (context,C)
//     forward   x[b,t,:] += weight[t,:]
//     backward  dweight[t,:] += Σ_b dx[b,t,:]                    dx passes on unchanged
//
//   RoPE  (Su et al. 2021, arXiv 2104.09864), on the heads of q and k, in place. Pairs (i, i + D/2) as Hugging
//   Face has them, each turned by the angle t·θ^(-2i/D):
//     forward   (a, b) ← (a·cos − b·sin, a·sin + b·cos)
//     backward  the inverse rotation: (da, db) ← (da·cos + db·sin, db·cos − da·sin)
//   saves     nothing

#include <cstddef>

#include "config.hpp"

// `first` is the position of the first row: 0 in training, beyond it when text is generated token by token.
void learned_position_forward(float* x, const float* weight, int first, int B, int T, int C);
void learned_position_backward(float* dweight, const float* dx, int B, int T, int C);

// The cosines and sines of every position and pair, (context, D/2) each.
struct RopeTable {
  Buffer cosine, sine;
  RopeTable() = default;
  RopeTable(int context, int head_dim, float theta);
};

// x: B·T rows, `stride` floats apart, each starting with `heads` heads of D floats (q and k of a joined qkv).
void rope_forward(float* x, const RopeTable& table, int first, int B, int T, int heads, int D, size_t stride);
void rope_backward(float* dx, const RopeTable& table, int B, int T, int heads, int D, size_t stride);
