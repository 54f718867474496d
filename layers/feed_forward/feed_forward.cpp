#include "feed_forward.hpp"

#include "activation.hpp"

void declare_sublayer(FeedForward& p, Layout& layout, const Config& config, const std::string& name, int layer) {
  const int C = config.channels, F = config.hidden;
  std::vector<LinearPart> up = {{"up", Role::ffn_in, F}};
  if (config.gated()) up.insert(up.begin(), {"gate", Role::ffn_in, F});
  p.up = declare_linear(layout, config, name, up, C);
  declare_branch_inner(p, layout, config, name, layer, F);
  p.down = declare_linear(layout, config, name, {{"down", Role::ffn_out, C}}, F);
}

void declare_sublayer_saved(FeedForwardSaved& saved, Layout& layout, const Config& config, const std::string& name,
                            int layer, int B, int T) {
  const int N = B * T;
  layout.share(config.recompute >= Recompute::selective);
  saved.up = layout.take(name + ".up", Role::ffn_in, {N, FeedForward::up_width(config)});
  saved.active = layout.take(name + ".activation", Role::activation, {N, config.hidden});
  layout.share(config.recompute >= Recompute::full);
  if (branch_keeps_output(config, layer)) saved.f = layout.take(name + ".down", Role::ffn_out, {N, config.channels});
}

const float* sublayer_inner(const FeedForwardSaved& saved, const float* u, const FeedForward& p,
                            const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels, F = c.config.hidden;
  adapted_forward(saved.up, u, p.up, C, FeedForward::up_width(c.config), c, DropoutSite::lora_up);
  activation_forward(saved.active, saved.up, c.config.activation, N, F);
  return branch_inner(saved, saved.active, p, N, F, c.training);
}

void sublayer_out(float* f, const float* m, const FeedForward& p, const BlockContext& c) {
  adapted_forward(f, m, p.down, c.config.hidden, c.config.channels, c, DropoutSite::lora_down);
}

void sublayer_backward(float* du, const FeedForward& g, const float* df, const float* u, const FeedForwardSaved& saved,
                       const FeedForward& p, const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels, F = c.config.hidden;
  const float* m = saved.m ? saved.m : saved.active;
  adapted_backward(c.scratch.inner, g.down, df, m, p.down, F, C, c, DropoutSite::lora_down);
  branch_inner_backward(c.scratch.inner, g, saved.active, saved, p, N, F);
  activation_backward(c.scratch.joined, c.scratch.inner, saved.up, c.config.activation, N, F);
  adapted_backward(du, g.up, c.scratch.joined, u, p.up, C, FeedForward::up_width(c.config), c, DropoutSite::lora_up);
}
