#pragma once
// Self-attention, the sublayer of a residual branch:
//   u (N,C) → q|k|v → QK-norm → value residual → RoPE → unit q and k → attention → the rest of its branch → f (N,C)

#include "attention_branch.hpp"
#include "layers/norm/unit_qk.hpp"

// Parameters, or their gradients.
struct Attention : AttentionBranch {
  Linear qkv;
  Mix value_mix;  // absent in the first layer
  UnitQk unit_qk;

  static constexpr DropoutSite kDropout = DropoutSite::attention_out;
};
void declare_sublayer(Attention& p, Layout& layout, const Config& config, const std::string& name, int layer);

struct AttentionSaved : AttentionBranchSaved {
  float* qkv;          // (N,q|k|v)
  float* v = nullptr;  // (N,KV·D) the values before a learned value residual
  UnitQkSaved unit_qk;
};
void declare_sublayer_saved(AttentionSaved& saved, Layout& layout, const Config& config, const std::string& name,
                            int layer, int B, int T);

void sublayer_core(const AttentionSaved& saved, const float* u, const Attention& p, const BlockContext& c);
void sublayer_out(float* f, const AttentionSaved& saved, const float* m, const Attention& p, const BlockContext& c);
void sublayer_backward(float* du, const Attention& g, const float* df, const float* u, const AttentionSaved& saved,
                       const Attention& p, const BlockContext& c);

// Returns the sizes and choices of attention in this layer.
AttentionShape attention_shape(const Config& config, int layer, const PositionBiases& biases,
                               const Positions& positions);
