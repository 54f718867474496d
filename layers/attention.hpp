#pragma once
//   q (T,H,D)   k, v (T,KV,D)   out (T,H,D)     query head h reads key/value head h / (H/KV)   (GQA: Ainslie et
//                                               al. 2023, arXiv 2305.13245)
//   forward   S[i,j] = q[i]·k[j] / √D for j ≤ i      P = softmax over j      out[i] = Σⱼ P[i,j] v[j]
//   backward  dV[j] = Σᵢ P[i,j] dout[i]       dP[i,j] = dout[i]·v[j]
//             dS[i,j] = P[i,j] (dP[i,j] − Δ[i])      Δ[i] = Σⱼ P[i,j] dP[i,j] = dout[i]·out[i]
//             dq[i] = Σⱼ dS[i,j] k[j] / √D           dk[j] = Σᵢ dS[i,j] q[i] / √D
//   saves     log-sum-exp of each row of S; the caller still holds q, k, v and out
//
// No (T,T) matrix is ever stored: forward and backward walk over square tiles of it, forward with a running
// softmax (Milakov & Gimelshein 2018, arXiv 1805.02867), backward recomputing P from the log-sum-exp (Dao et al.
// 2022, arXiv 2205.14135). Dropout, where on, acts on P after the softmax.

#include <cstddef>

#include "dropout.hpp"

struct AttentionShape {
  int B, T;  // sequences and queries in each
  int n_head, kv_heads, head_dim;

  int width() const { return n_head * head_dim; }                      // of out
  int qkv_width() const { return (n_head + 2 * kv_heads) * head_dim; }  // of a row q|k|v
};

// Where keys and values come from: row j of sequence b lies (b·rows + j)·stride behind k and v. There are `past`
// keys before the first query; the last query sees them all.
struct KeysValues {
  const float *k, *v;
  size_t stride;
  int past = 0;
};

// out (B,T,H·D), lse (B,H,T), q (B,T) rows `q_stride` apart.
void attention_forward(float* out, float* lse, const float* q, size_t q_stride, const KeysValues& kv,
                       const AttentionShape& shape, const Dropout& dropout, int layer);

// The training form, on joined rows q|k|v: qkv (B,T,qkv_width). dqkv is written.
void attention_forward(float* out, float* lse, const float* qkv, const AttentionShape& shape,
                       const Dropout& dropout, int layer);
void attention_backward(float* dqkv, const float* dout, const float* out, const float* lse, const float* qkv,
                        const AttentionShape& shape, const Dropout& dropout, int layer);
