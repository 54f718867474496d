#pragma once
// Cross attention, the decoder's second sublayer: queries from the stream, keys and values from the encoder's output.
//   u (N,C) → q      memory (B·S,C) → k|v      QK-norm → attention → the rest as in self-attention → f (N,C)
// Neither positions nor windows act here: a query sees all of its source (attention.hpp).

#include "attention_branch.hpp"

// Parameters, or their gradients.
struct CrossAttention : AttentionBranch {
  Linear q, kv;

  static constexpr DropoutSite kDropout = DropoutSite::cross_out;
};
void declare_sublayer(CrossAttention& p, Layout& layout, const Config& config, const std::string& name, int layer);

struct CrossAttentionSaved : AttentionBranchSaved {
  float *q, *kv;  // (N,H·D) (B·S,2·KV·D)
};
// The memory has at most as many rows as the stream.
void declare_sublayer_saved(CrossAttentionSaved& saved, Layout& layout, const Config& config, const std::string& name,
                            int layer, int B, int T);

// The sizes and choices of cross attention, without sinks, and the rows that it has read.
AttentionShape cross_attention_shape(const Config& config, int B, int T, const Memory& memory);
QkvRows<const float> rows_of(const CrossAttentionSaved& saved, const Config& config);

void sublayer_core(const CrossAttentionSaved& saved, const float* u, const CrossAttention& p, const BlockContext& c);
void sublayer_out(float* f, const CrossAttentionSaved& saved, const float* m, const CrossAttention& p,
                  const BlockContext& c);
// Adds to the gradient of the memory; the last layer, whose backward is the first, overwrites it.
void sublayer_backward(float* du, const CrossAttention& g, const float* df, const float* u,
                       const CrossAttentionSaved& saved, const CrossAttention& p, const BlockContext& c);
