#pragma once
// The feed-forward layer, the sublayer of a residual branch:
//   u (N,C) → up (or gate|up) → up_gain → activation → norm_inner → down → f (N,C)
// In a mixture of experts, each expert has its own up and down, and there are R rows between them instead of N.

#include "layers/moe/moe.hpp"
#include "layers/sublayer/sublayer.hpp"

// Parameters, or their gradients.
struct FeedForward : Branch {
  Linear up, down;  // up is gate|up if the activation is gated
  Gain up_gain;     // on gate|up, if the model has one: its factor is √C
  Moe moe;          // used instead of up and down if present

  static constexpr DropoutSite kDropout = DropoutSite::ffn_out;
  static int inner_width(const Config& config) { return config.hidden; }
  static int inner_rows(const Config& config, int N) { return expert_rows(config, N); }
  static int up_width(const Config& config) { return config.gated() ? 2 * config.hidden : config.hidden; }
};
void declare_sublayer(FeedForward& p, Layout& layout, const Config& config, const std::string& name, int layer);

struct FeedForwardSaved : BranchSaved {
  float *up, *active;        // (R,F) or (R,2F), (R,F): before and after the activation
  float* plain = nullptr;    // (N,F) or (N,2F) before up_gain
  RouterSaved router;
};
void declare_sublayer_saved(FeedForwardSaved& saved, Layout& layout, const Config& config, const std::string& name,
                            int layer, int B, int T);

inline void sublayer_core(const FeedForwardSaved&, const float*, const FeedForward&, const BlockContext&) {}
const float* sublayer_inner(const FeedForwardSaved& saved, const float* u, const FeedForward& p,
                            const BlockContext& c);
void sublayer_out(float* f, const FeedForwardSaved& saved, const float* m, const FeedForward& p,
                  const BlockContext& c);
void sublayer_backward(float* du, const FeedForward& g, const float* df, const float* u, const FeedForwardSaved& saved,
                       const FeedForward& p, const BlockContext& c);
