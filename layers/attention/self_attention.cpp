#include "self_attention.hpp"

#include <cstring>

void declare_sublayer(Attention& p, Layout& layout, const Config& config, const std::string& name, int layer) {
  const int D = config.head_dim, C = config.channels, width = Attention::inner_width(config);
  p.qkv = declare_linear(
      layout, config, name,
      {{"q", Role::qk, width}, {"k", Role::qk, config.kv_heads * D}, {"v", Role::v, config.kv_heads * D}}, C);
  p.qk_norm = declare_qk_norm(layout, config, name);
  declare_branch_inner(p, layout, config, name, layer, width);
  p.o = declare_linear(layout, config, name, {{"o", Role::o, C}}, width);
}

void declare_sublayer_saved(AttentionSaved& saved, Layout& layout, const Config& config, const std::string& name,
                            int layer, int B, int T) {
  const int N = B * T;
  layout.share(config.recompute >= Recompute::full);
  saved.qkv = layout.take(name + ".qkv", Role::qk, {N, config.qkv_width()});
  saved.qk_norm = declare_qk_norm_saved(layout, config, name, N);
  saved.lse = layout.take(name + ".lse", Role::attention, {B, config.n_head, T});
  saved.mixed = layout.take(name + ".mixed", Role::attention, {N, Attention::inner_width(config)});
  if (branch_keeps_output(config, layer)) saved.f = layout.take(name + ".o", Role::o, {N, config.channels});
}

AttentionShape attention_shape(const Config& config, int layer, const float* slopes, int B, int T) {
  return {B, T, config.n_head, config.kv_heads, config.head_dim, static_cast<float>(*config.attention_scale),
          config.attention_cap, config.window_of(layer), slopes};
}

namespace {

// Normalizes and turns q and k, and mixes the values; from the cache, to which the new keys and values are added, where
// there is one.
void attend(const AttentionSaved& saved, const Attention& p, const BlockContext& c) {
  const Config& config = c.config;
  const AttentionShape shape = attention_shape(config, c.layer, c.slopes, c.B, c.T);
  const size_t stride = shape.qkv_width(), kv_width = cache_width(config);
  qk_norm_forward(saved.qkv, saved.qk_norm, saved.mixed, p.qk_norm, config, c.B * c.T);  // mixed is not in use yet
  if (config.position == Position::rope)
    rope_forward(saved.qkv, c.rope, c.cache.past, c.B, c.T, config.n_head + config.kv_heads, config.head_dim, stride);
  if (!c.cache.rows) return attention_forward(saved.mixed, saved.lse, saved.qkv, shape, c.dropout, c.layer);

  const size_t length = c.cache.length;
  for (int n = 0; n < c.B * c.T; ++n) {
    const size_t row = n / c.T * length + c.cache.past + n % c.T;
    std::memcpy(c.cache.rows + row * kv_width, saved.qkv + n * stride + shape.width(), kv_width * sizeof(float));
  }
  const KeysValues kv{c.cache.rows, c.cache.rows + kv_width / 2, kv_width, c.cache.past, length};
  attention_forward(saved.mixed, saved.lse, saved.qkv, stride, kv, shape, c.dropout, c.layer);
}

}  // namespace

const float* sublayer_inner(const AttentionSaved& saved, const float* u, const Attention& p, const BlockContext& c) {
  if (c.runs(Recompute::full)) {
    adapted_forward(saved.qkv, u, p.qkv, c.config.channels, c.config.qkv_width(), c, DropoutSite::lora_qkv);
    attend(saved, p, c);
  }
  return branch_inner(saved, saved.mixed, p, c.B * c.T, Attention::inner_width(c.config), c.training);
}

void sublayer_out(float* f, const float* m, const Attention& p, const BlockContext& c) {
  adapted_forward(f, m, p.o, Attention::inner_width(c.config), c.config.channels, c, DropoutSite::lora_o);
}

void sublayer_backward(float* du, const Attention& g, const float* df, const float* u, const AttentionSaved& saved,
                       const Attention& p, const BlockContext& c) {
  const Config& config = c.config;
  const int N = c.B * c.T, C = config.channels, width = Attention::inner_width(config), read_width = config.qkv_width();
  float *dmixed = c.scratch.inner, *dqkv = c.scratch.joined;
  const float* m = saved.m ? saved.m : saved.mixed;
  adapted_backward(dmixed, g.o, df, m, p.o, width, C, c, DropoutSite::lora_o);
  branch_inner_backward(dmixed, g, saved.mixed, saved, p, N, width);
  attention_backward(dqkv, dmixed, saved.mixed, saved.lse, saved.qkv,
                     attention_shape(config, c.layer, c.slopes, c.B, c.T), c.dropout, c.layer);
  if (config.position == Position::rope)
    rope_backward(dqkv, c.rope, c.B, c.T, config.n_head + config.kv_heads, config.head_dim, read_width);
  qk_norm_backward(dqkv, g.qk_norm, c.scratch.inner, saved.qk_norm, p.qk_norm, config, N);
  adapted_backward(du, g.qkv, dqkv, u, p.qkv, C, read_width, c, DropoutSite::lora_qkv);
}
