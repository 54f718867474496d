#pragma once
//   q (T,H,D)   k, v (T,KV,D)   out (T,H,D)     query head h reads key/value head h / (H/KV)   (GQA: Ainslie et
//                                               al. 2023, arXiv 2305.13245)
//   forward   S[i,j] = s·q[i]·k[j] for j ≤ i, s = 1/√D     P = softmax over j     out[i] = Σⱼ P[i,j] v[j]
//   backward  dV[j] = Σᵢ P[i,j] dout[i]       dP[i,j] = dout[i]·v[j]
//             dS[i,j] = P[i,j] (dP[i,j] − Δ[i])      Δ[i] = Σⱼ P[i,j] dP[i,j] = dout[i]·out[i]
//             dq[i] = s·Σⱼ dS[i,j] k[j]              dk[j] = s·Σᵢ dS[i,j] q[i]
//   saves     log-sum-exp of each row of S; the caller still holds q, k, v and out
//
// AttentionShape may change the scores, in this order. A change is off if its value is 0 or null:
//   scale    another s (Gemma-2: query_pre_attn_scalar^-½)
//   cap      S ← c·tanh(S/c)            dS ← dS·(1 − tanh²)         (Gemma 2: Riviere et al. 2024, arXiv 2408.00118)
//   slopes   S ← S − slopes[h]·(i − j)  dS passes on unchanged      (ALiBi: Press et al. 2021, arXiv 2108.12409, §3)
//   relative S ← S + table[b,h], b being the bucket of i − j         (T5: Raffel et al. 2020, arXiv 1910.10683, §2.1)
//            dS passes on unchanged     dtable[b,h] = Σ dS[i,j] over all i, j of this bucket
//   window   query i sees only keys i − window < j ≤ i             (Mistral 7B: Jiang et al. 2023, arXiv 2310.06825,
//            §2, as transformers has it; tiles outside every window are skipped)
//   begins   query i sees only keys begins[i] ≤ j ≤ i             (several examples in a row; other tiles are skipped)
// Unless the shape is `causal`, a query sees later keys, too: all of its example, within the window i − window < j <
// i + window. ALiBi's distance is then |i − j|. (BERT: Devlin et al. 2019, arXiv 1810.04805.)
// In cross attention, the keys and values are of another sequence, k, v (S,KV,D): query i sees from[i] ≤ j < to[i].
// (Vaswani et al. 2017, arXiv 1706.03762, §3.2.3.)
//
// A sink is one more score in each row of its head, without a key or a value, the same for all queries (gpt-oss: OpenAI
// 2025, arXiv 2508.10925; the name is from Xiao et al. 2023, arXiv 2309.17453). It takes weight from the keys, so that
// a head may read almost nothing:
//   forward   P[i,j] = exp(S[i,j] − lse[i])      lse[i] = log( exp(sink) + Σⱼ exp(S[i,j]) )
//   backward  dsink = −Σᵢ exp(sink − lse[i])·Δ[i], because its own dP is 0       dS as above
//
// No (T,T) matrix is ever stored: forward and backward compute it in square tiles. Forward keeps a running softmax
// (Milakov & Gimelshein 2018, arXiv 1805.02867); backward recomputes P from the log-sum-exp (Dao et al. 2022, arXiv
// 2205.14135). Dropout acts on P, after the softmax.

#include <cstddef>

#include "layers/dropout/dropout.hpp"
#include "shape.hpp"

// Keys and values: row j of sequence b starts at k and v + (b·length + j)·stride. `past` keys come before the first
// query; the last query sees past + T keys.
struct KeysValues {
  const float *k, *v;
  size_t stride;
  int past;
  size_t length;
};

// Rows of q and of k and v, or their gradients: query i of all sequences is at q + i·q_stride, key j of all sequences
// at k + j·kv_stride.
template <class Float>
struct QkvRows {
  Float *q, *k, *v;
  size_t q_stride, kv_stride;

  operator QkvRows<const Float>() const { return {q, k, v, q_stride, kv_stride}; }
};
// The gradients that backward writes, and those of the relative positions' table (buckets,H), to which it adds.
struct AttentionGradients : QkvRows<float> {
  float* drelative = nullptr;  // null: not wanted
};
// The parts of joined rows q|k|v.
template <class Float>
QkvRows<Float> parts_of(Float* qkv, const AttentionShape& shape) {
  const size_t stride = shape.qkv_width(), k_at = shape.width(), v_at = k_at + shape.kv_heads * shape.head_dim;
  return {qkv, qkv + k_at, qkv + v_at, stride, stride};
}

// out (B,T,H·D), lse (B,H,T), q (B,T) rows with stride `q_stride`.
void attention_forward(float* out, float* lse, const float* q, size_t q_stride, const KeysValues& kv,
                       const AttentionShape& shape, const Dropout& dropout, int layer);

// The form for training, on q (B,T) and k, v (B, shape.keys()). Backward overwrites d.
void attention_forward(float* out, float* lse, const QkvRows<const float>& x, const AttentionShape& shape,
                       const Dropout& dropout, int layer);
void attention_backward(const AttentionGradients& d, const float* dout, const float* out, const float* lse,
                        const QkvRows<const float>& x, const AttentionShape& shape, const Dropout& dropout, int layer);

// The same on joined rows q|k|v: qkv (B,T,qkv_width).
void attention_forward(float* out, float* lse, const float* qkv, const AttentionShape& shape,
                       const Dropout& dropout, int layer);
void attention_backward(float* dqkv, const float* dout, const float* out, const float* lse, const float* qkv,
                        const AttentionShape& shape, const Dropout& dropout, int layer);

// Adds the gradients of shape.sinks to dsinks (H).
void sinks_backward(float* dsinks, const float* dout, const float* out, const float* lse, const AttentionShape& shape);
