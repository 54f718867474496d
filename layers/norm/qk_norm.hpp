#pragma once
// Norms of queries and keys, before RoPE: in place, on rows of q (N,H·D) and of k and v (M,KV·D).
//
//   head   each head by itself, rows of D: one gain (D) for all heads of q, one for all of k    (Qwen3, arXiv
//          2505.09388; Dehghani et al. 2023, arXiv 2302.05442)
//   full   all of q and all of k in a row, gains (H·D), (KV·D)    (OLMo 2, arXiv 2501.00656, §3)
//   qkv    as head, and each head of v, with a third gain (D)    (HybridNorm: Zhuo et al. 2025, arXiv 2503.04598)
//   forward, backward   as in the norm; v passes through, unless qkv
//   saves  q and k (and v) before the norms, and what the norms save

#include <string>

#include "norm.hpp"

// Parameters, or their gradients; absent if config.qk_norm is none or unit (unit_qk.hpp).
struct QkNorm {
  Norm q, k, v;
};
QkNorm declare_qk_norm(Layout& layout, const Config& config, const std::string& name);

// Saved by a norm that overwrites its input.
struct InPlaceNormSaved : NormSaved {
  float* x = nullptr;  // the input
};
struct QkNormSaved {
  InPlaceNormSaved q, k, v;  // of inputs (N,H·D), (N,KV·D), (N,KV·D)
};
QkNormSaved declare_qk_norm_saved(Layout& layout, const Config& config, const std::string& name, int N, int M);

// The rows over which q (heads = H) or k (heads = KV) is normalized: their number per token and their width.
struct QkRows {
  int count, width;
};
QkRows qk_rows(const Config& config, int heads);

// The rows, or their gradients, and the distances between them.
struct QkNormRows {
  float *q, *k, *v;
  size_t q_stride, kv_stride;
  int N, M;
};

// scratch (N,H·D) and (M,H·D)
void qk_norm_forward(const QkNormRows& x, const QkNormSaved& saved, float* scratch, const QkNorm& p,
                     const Config& config);
void qk_norm_backward(const QkNormRows& d, const QkNorm& g, float* scratch, const QkNormSaved& saved, const QkNorm& p,
                      const Config& config);
