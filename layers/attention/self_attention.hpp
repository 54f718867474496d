#pragma once
// Self-attention, the sublayer of a residual branch:
//   u (N,C) → q|k|v → QK-norm → value residual → RoPE → attention → gate → head scale → norm_inner → o → f (N,C)
//   gate: times σ(u·its matrix)                                                                            N = B·T

#include "attention.hpp"
#include "layers/norm/qk_norm.hpp"
#include "layers/sublayer/sublayer.hpp"

// Parameters, or their gradients.
struct Attention : Branch {
  Linear qkv, output_gate, o;
  QkNorm qk_norm;
  Gain head_scale;
  float* sinks = nullptr;  // (H), if the model has them
  Mix value_mix;  // absent in the first layer

  static constexpr DropoutSite kDropout = DropoutSite::attention_out;
  static int inner_width(const Config& config) { return config.n_head * config.head_dim; }
  static int inner_rows(const Config&, int N) { return N; }
};
void declare_sublayer(Attention& p, Layout& layout, const Config& config, const std::string& name, int layer);

struct AttentionSaved : BranchSaved {
  float *qkv, *lse, *mixed;  // (N,q|k|v) (B,H,T) (N,H·D)
  QkNormSaved qk_norm;
  float* v = nullptr;                        // (N,KV·D) the values before a learned value residual
  float *gate = nullptr, *gated = nullptr;  // (N,G) before the sigmoid, (N,H·D) after the output gate
  float* scaled = nullptr;                  // (N,H·D) after the head scale

  const float* heads() const { return gated ? gated : mixed; }     // (N,H·D) what the head scale reads
  const float* inner() const { return scaled ? scaled : heads(); }  // (N,H·D) what norm_inner or o reads
};
void declare_sublayer_saved(AttentionSaved& saved, Layout& layout, const Config& config, const std::string& name,
                            int layer, int B, int T);

void sublayer_core(const AttentionSaved& saved, const float* u, const Attention& p, const BlockContext& c);
const float* sublayer_inner(const AttentionSaved& saved, const float* u, const Attention& p, const BlockContext& c);
void sublayer_out(float* f, const AttentionSaved& saved, const float* m, const Attention& p, const BlockContext& c);
void sublayer_backward(float* du, const Attention& g, const float* df, const float* u, const AttentionSaved& saved,
                       const Attention& p, const BlockContext& c);

// Returns the sizes and choices of attention in this layer.
AttentionShape attention_shape(const Config& config, int layer, const float* slopes, const Positions& positions);
