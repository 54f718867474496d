#include "attention_branch.hpp"

#include "head_scale.hpp"
#include "layers/kernels/elementwise.hpp"
#include "output_gate.hpp"

namespace {

bool headwise(const Config& config) { return config.output_gate == OutputGate::headwise; }

}  // namespace

void declare_attention_branch(AttentionBranch& p, Layout& layout, const Config& config, const std::string& name,
                              int layer) {
  const int C = config.channels, width = AttentionBranch::inner_width(config);
  const Growth growth = headwise(config) ? Growth::in_and_heads : Growth::both;
  if (config.gate_width() > 0)
    p.output_gate = declare_linear(layout, config, name, {{"output_gate", Role::qk, config.gate_width(), growth}}, C);
  if (*config.head_scale) p.head_scale = declare_gain(layout, name + ".head_scale", config.n_head, 1);
  if (config.attention_sinks) p.sinks = layout.take(name + ".sinks", Role::attention, {config.n_head});
  declare_branch_inner(p, layout, config, name, layer, width);
  p.o = declare_linear(layout, config, name, {{"o", Role::o, C}}, width);
}

void declare_attention_branch_saved(AttentionBranchSaved& saved, Layout& layout, const Config& config,
                                    const std::string& name, int layer, int B, int T) {
  const int N = B * T, width = AttentionBranch::inner_width(config);
  saved.lse = layout.take(name + ".lse", Role::attention, {B, config.n_head, T});
  saved.mixed = layout.take(name + ".mixed", Role::attention, {N, width});
  if (branch_keeps_output(config, layer, name)) saved.f = layout.take(name + ".o", Role::o, {N, config.channels});
  layout.share(config.recompute >= Recompute::selective);
  if (*config.head_scale) saved.scaled = layout.take(name + ".scaled", Role::attention, {N, width});
  if (config.gate_width() == 0) return;
  saved.gate = layout.take(name + ".output_gate", Role::qk, {N, config.gate_width()});
  saved.gated = layout.take(name + ".gated", Role::attention, {N, width});
}

const float* sublayer_inner(const AttentionBranchSaved& saved, const float* u, const AttentionBranch& p,
                            const BlockContext& c) {
  const Config& config = c.config;
  const int N = c.B * c.T;
  if (saved.gated) {
    linear_forward(saved.gate, u, p.output_gate, {N, config.channels, config.gate_width()});
    output_gate_forward(saved.gated, saved.mixed, saved.gate, N, config.n_head, config.head_dim, headwise(config));
  }
  if (saved.scaled) head_scale_forward(saved.scaled, saved.heads(), p.head_scale, N, config.n_head, config.head_dim);
  return branch_inner(saved, saved.inner(), p, N, AttentionBranch::inner_width(config), c.training);
}

void attention_branch_backward(const AttentionBranch& g, const float* df, const float* u,
                               const AttentionBranchSaved& saved, const AttentionBranch& p, const BlockContext& c,
                               DropoutSite site) {
  const Config& config = c.config;
  const int N = c.B * c.T, C = config.channels, width = AttentionBranch::inner_width(config);
  float* dmixed = c.scratch.inner;
  const float* m = saved.m ? saved.m : saved.inner();
  adapted_backward(dmixed, g.o, df, m, p.o, {N, width, C}, c, site);
  branch_inner_backward(dmixed, g, saved.inner(), saved, p, N, width);
  if (saved.scaled)
    head_scale_backward(dmixed, g.head_scale, saved.heads(), p.head_scale, N, config.n_head, config.head_dim);
  if (!saved.gated) return;
  float* dgate = c.scratch.joined;
  output_gate_backward(dmixed, dgate, saved.mixed, saved.gate, N, config.n_head, config.head_dim, headwise(config));
  linear_backward(c.scratch.f, g.output_gate, dgate, u, p.output_gate, {N, C, config.gate_width()});
}

void add_gate_gradient(float* du, const AttentionBranchSaved& saved, const BlockContext& c) {
  if (saved.gated) scaled_add(du, 1, du, c.scratch.f, c.B * c.T, c.config.channels);
}
