#pragma once
// Positional encodings. (ALiBi's slopes act in attention.)
//
//   learned   x (B,T,C)   weight (context,C)
//     forward   x[b,t,:] += weight[t,:]
//     backward  dweight[t,:] += Σ_b dx[b,t,:]                    dx passes on unchanged
//
//   sinusoidal  the same with a fixed weight: column 2i is sin(t·10000^(-2i/C)), column 2i + 1 the cosine of the same
//     angle, interleaved as in the paper (Vaswani et al. 2017, arXiv 1706.03762, §3.5; some programs put all sines
//     first).
//
//   RoPE  (Su et al. 2021, arXiv 2104.09864), in place on the heads of q and k. It rotates the first R numbers of each
//   head (R = D, or fewer: GPT-NeoX, Black et al. 2022, arXiv 2204.06745) in pairs (i, i + R/2), as in Hugging Face's
//   transformers, by the angle t·θ^(-2i/R):
//     forward   (a, b) ← (a·cos − b·sin, a·sin + b·cos)
//     backward  the inverse rotation: (da, db) ← (da·cos + db·sin, db·cos − da·sin)
//   saves     nothing
//
// t is the position of a token in its example. A row holds one example, or several side by side (Positions::begins).

#include <cstddef>

#include "layers/kernels/buffer.hpp"

// The positions of B·T tokens.
struct Positions {
  int B, T;
  int first = 0;                // position of a row's first token: 0 in training, larger in generation token by token
  const int* begins = nullptr;  // (B,T) see Batch (layers/model/model.hpp)

  int of(int n) const { return first + n % T - (begins ? begins[n] : 0); }
};

// Adds positions to x. `weight` holds learned positions or the sinusoids.
void position_forward(float* x, const float* weight, const Positions& positions, int C);
void learned_position_backward(float* dweight, const float* dx, const Positions& positions, int C);

// Returns the sinusoids (context, C), which replace a learned weight.
Buffer sinusoids(int context, int C);

// The cosines and sines for every position and pair, (context, R/2) each.
struct RopeTable {
  Buffer cosine, sine;
  int half = 0;  // R/2
  RopeTable() = default;
  RopeTable(int context, int R, float theta);
};

// x has B·T rows with stride `stride`. Each starts with `heads` heads of D floats (q and k in a joined qkv).
void rope_forward(float* x, const RopeTable& table, const Positions& positions, int heads, int D, size_t stride);
void rope_backward(float* dx, const RopeTable& table, const Positions& positions, int heads, int D, size_t stride);

// ALiBi's slopes (H): 2^(-8/H), 2^(-16/H), ... if H is a power of two (Press et al. 2021, arXiv 2108.12409, §3). For
// other H, as in the paper's code and BLOOM: the slopes of the power of two below H, then every second slope of twice
// that power.
Buffer alibi_slopes(int n_head);
