#pragma once
// What self-attention and cross attention have in common: the branch that follows the scores.
//   mixed (N,H·D) → gate → head scale → norm_inner → o → f (N,C)          gate: times σ(u·its matrix)         N = B·T

#include "attention.hpp"
#include "layers/norm/qk_norm.hpp"
#include "layers/sublayer/sublayer.hpp"

// Parameters, or their gradients.
struct AttentionBranch : Branch {
  Linear output_gate, o;
  QkNorm qk_norm;
  Gain head_scale;
  float* sinks = nullptr;  // (H), if the model has them

  static int inner_width(const Config& config) { return config.n_head * config.head_dim; }
  static int inner_rows(const Config&, int N) { return N; }
};
// Takes all tensors but those of the scores.
void declare_attention_branch(AttentionBranch& p, Layout& layout, const Config& config, const std::string& name,
                              int layer);

struct AttentionBranchSaved : BranchSaved {
  float *lse, *mixed;  // (B,H,T) (N,H·D)
  QkNormSaved qk_norm;
  float *gate = nullptr, *gated = nullptr;  // (N,G) before the sigmoid, (N,H·D) after the output gate
  float* scaled = nullptr;                  // (N,H·D) after the head scale

  const float* heads() const { return gated ? gated : mixed; }     // (N,H·D) what the head scale reads
  const float* inner() const { return scaled ? scaled : heads(); }  // (N,H·D) what norm_inner or o reads
};
void declare_attention_branch_saved(AttentionBranchSaved& saved, Layout& layout, const Config& config,
                                    const std::string& name, int layer, int B, int T);

const float* sublayer_inner(const AttentionBranchSaved& saved, const float* u, const AttentionBranch& p,
                            const BlockContext& c);

// df → dmixed, which it writes to c.scratch.inner. A gate writes its share of du to c.scratch.f, and uses
// c.scratch.joined.
void attention_branch_backward(const AttentionBranch& g, const float* df, const float* u,
                               const AttentionBranchSaved& saved, const AttentionBranch& p, const BlockContext& c,
                               DropoutSite site);

// Adds the gate's share, if there is one.
void add_gate_gradient(float* du, const AttentionBranchSaved& saved, const BlockContext& c);
