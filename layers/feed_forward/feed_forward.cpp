#include "feed_forward.hpp"

#include <cmath>

#include "activation.hpp"

void declare_sublayer(FeedForward& p, Layout& layout, const Config& config, const std::string& name, int layer) {
  const int C = config.channels, F = config.hidden;
  std::vector<LinearPart> up = {{"up", Role::ffn_in, F}};
  if (config.gated()) up.insert(up.begin(), {"gate", Role::ffn_in, F});
  if (config.experts > 0) declare_moe_in(p.moe, layout, config, name);
  else p.up = declare_linear(layout, config, name, up, C);
  if (config.up_gain) {
    p.up_gain = declare_gain(layout, name + ".hidden", FeedForward::up_width(config), 1);
    p.up_gain.factor = std::sqrt(static_cast<float>(C));
  }
  declare_branch_inner(p, layout, config, name, layer, F);
  if (config.experts > 0) declare_moe_out(p.moe, layout, config, name);
  else p.down = declare_linear(layout, config, name, {{"down", Role::ffn_out, C}}, F);
}

void declare_sublayer_saved(FeedForwardSaved& saved, Layout& layout, const Config& config, const std::string& name,
                            int layer, int B, int T) {
  const int N = B * T, R = FeedForward::inner_rows(config, N);
  layout.share(config.recompute >= Recompute::selective);
  if (config.experts > 0) saved.router = declare_router_saved(layout, config, name + ".router", N);
  saved.up = layout.take(name + ".up", Role::ffn_in, {R, FeedForward::up_width(config)});
  if (config.up_gain) saved.plain = layout.take(name + ".plain", Role::ffn_in, {R, FeedForward::up_width(config)});
  saved.active = layout.take(name + ".activation", Role::activation, {R, config.hidden});
  layout.share(config.recompute >= Recompute::full);
  if (branch_keeps_output(config, layer, name))
    saved.f = layout.take(name + ".down", Role::ffn_out, {N, config.channels});
}

const float* sublayer_inner(const FeedForwardSaved& saved, const float* u, const FeedForward& p,
                            const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels, F = c.config.hidden, R = FeedForward::inner_rows(c.config, N);
  const int width = FeedForward::up_width(c.config);
  float* up = saved.plain ? saved.plain : saved.up;
  if (p.moe.present()) moe_up_forward(up, saved.router, u, p.moe, c);
  else adapted_forward(up, u, p.up, {N, C, width}, c, DropoutSite::lora_up);
  gain_forward(saved.up, saved.plain, p.up_gain, N, width);
  activation_forward(saved.active, saved.up, c.config.activation, R, F);
  return branch_inner(saved, saved.active, p, R, F, c.training);
}

void sublayer_out(float* f, const FeedForwardSaved& saved, const float* m, const FeedForward& p,
                  const BlockContext& c) {
  if (p.moe.present()) moe_down_forward(f, saved.router, m, p.moe, c);
  else adapted_forward(f, m, p.down, {c.B * c.T, c.config.hidden, c.config.channels}, c, DropoutSite::lora_down);
}

void sublayer_backward(float* du, const FeedForward& g, const float* df, const float* u, const FeedForwardSaved& saved,
                       const FeedForward& p, const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels, F = c.config.hidden, R = FeedForward::inner_rows(c.config, N);
  const float* m = saved.m ? saved.m : saved.active;
  float *dm = c.scratch.inner, *dup = c.scratch.joined;
  if (p.moe.present()) moe_down_backward(dm, g.moe, df, m, saved.router, p.moe, c);
  else adapted_backward(dm, g.down, df, m, p.down, {N, F, C}, c, DropoutSite::lora_down);
  branch_inner_backward(dm, g, saved.active, saved, p, R, F);
  activation_backward(dup, dm, saved.up, c.config.activation, R, F);
  const int width = FeedForward::up_width(c.config);
  gain_backward(dup, g.up_gain, dup, saved.plain, p.up_gain, N, width);
  if (p.moe.present()) moe_up_backward(du, g.moe, dup, u, saved.router, p.moe, c);
  else adapted_backward(du, g.up, dup, u, p.up, {N, C, width}, c, DropoutSite::lora_up);
}
