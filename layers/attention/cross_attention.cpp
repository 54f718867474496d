#include "cross_attention.hpp"

#include "layers/kernels/elementwise.hpp"

void declare_sublayer(CrossAttention& p, Layout& layout, const Config& config, const std::string& name, int layer) {
  const int D = config.head_dim, C = config.channels, kv = config.kv_heads * D;
  p.q = declare_linear(layout, config, name, {{"q", Role::qk, config.n_head * D}}, C);
  p.kv = declare_linear(layout, config, name, {{"k", Role::qk, kv}, {"v", Role::v, kv}}, C);
  p.qk_norm = declare_qk_norm(layout, config, name);
  declare_attention_branch(p, layout, config, name, layer);
}

void declare_sublayer_saved(CrossAttentionSaved& saved, Layout& layout, const Config& config, const std::string& name,
                            int layer, int B, int T) {
  layout.share(config.recompute >= Recompute::full);
  saved.q = layout.take(name + ".q_rows", Role::qk, {B * T, CrossAttention::inner_width(config)});
  saved.kv = layout.take(name + ".kv_rows", Role::qk, {B * T, static_cast<int>(cache_width(config))});
  saved.qk_norm = declare_qk_norm_saved(layout, config, name, B * T, B * T);
  declare_attention_branch_saved(saved, layout, config, name, layer, B, T);
}

AttentionShape cross_attention_shape(const Config& config, int B, int T, const Memory& memory) {
  const float scale = static_cast<float>(*config.attention_scale);
  return {.B = B, .T = T, .n_head = config.n_head, .kv_heads = config.kv_heads, .head_dim = config.head_dim,
          .scale = scale, .cap = config.attention_cap, .causal = false, .sources = memory.T, .from = memory.from,
          .to = memory.to, .words = multiplies_words(config.matmul)};
}

namespace {

AttentionShape shape_of(const CrossAttention& p, const BlockContext& c) {
  AttentionShape shape = cross_attention_shape(c.config, c.B, c.T, c.memory);
  shape.sinks = p.sinks;
  return shape;
}

LinearShape q_shape(const BlockContext& c) {
  return {c.B * c.T, c.config.channels, CrossAttention::inner_width(c.config)};
}
LinearShape kv_shape(const BlockContext& c) {
  return {c.memory.rows, c.config.channels, static_cast<int>(cache_width(c.config))};
}

template <class Float>
QkvRows<Float> parts_of(Float* q, Float* kv, const Config& config) {
  const size_t width = cache_width(config);
  return {q, kv, kv + width / 2, size_t(CrossAttention::inner_width(config)), width};
}

QkNormRows norm_rows(float* q, float* kv, const BlockContext& c) {
  const auto [q_rows, k, v, q_stride, kv_stride] = parts_of(q, kv, c.config);
  return {q_rows, k, v, q_stride, kv_stride, c.B * c.T, c.memory.rows};
}

}  // namespace

QkvRows<const float> rows_of(const CrossAttentionSaved& saved, const Config& config) {
  return parts_of<const float>(saved.q, saved.kv, config);
}

// Later tokens of a sequence read the keys and values that its first ones have left in the cache.
void sublayer_core(const CrossAttentionSaved& saved, const float* u, const CrossAttention& p, const BlockContext& c) {
  float* kv = c.cache.memory ? c.cache.memory : saved.kv;
  const bool known = c.cache.memory && c.cache.past > 0;
  adapted_forward(saved.q, u, p.q, q_shape(c), c, DropoutSite::lora_cross_q);
  if (!known) adapted_forward(kv, c.memory.x, p.kv, kv_shape(c), c, DropoutSite::lora_cross_kv);
  QkNormRows rows = norm_rows(saved.q, kv, c);
  if (known) rows.M = 0;
  qk_norm_forward(rows, saved.qk_norm, saved.mixed, p.qk_norm, c.config);  // mixed serves as scratch here
  const size_t width = cache_width(c.config), length = c.memory.rows > c.memory.T ? size_t(c.memory.T) : 0;
  attention_forward(saved.mixed, saved.lse, saved.q, q_shape(c).O, {kv, kv + width / 2, width, 0, length},
                    shape_of(p, c), c.dropout, c.layer);
}

void sublayer_out(float* f, const CrossAttentionSaved&, const float* m, const CrossAttention& p,
                  const BlockContext& c) {
  adapted_forward(f, m, p.o, {c.B * c.T, CrossAttention::inner_width(c.config), c.config.channels}, c,
                  DropoutSite::lora_cross_o);
}

void sublayer_backward(float* du, const CrossAttention& g, const float* df, const float* u,
                       const CrossAttentionSaved& saved, const CrossAttention& p, const BlockContext& c) {
  attention_branch_backward(g, df, u, saved, p, c, DropoutSite::lora_cross_o);
  const AttentionShape shape = shape_of(p, c);
  const float* dmixed = c.scratch.inner;
  if (p.sinks) sinks_backward(g.sinks, dmixed, saved.mixed, saved.lse, shape);
  float *dq = c.scratch.joined, *dkv = dq + size_t(c.B) * c.T * q_shape(c).O;
  attention_backward({parts_of(dq, dkv, c.config)}, dmixed, saved.mixed, saved.lse, rows_of(saved, c.config), shape,
                     c.dropout, c.layer);
  qk_norm_backward(norm_rows(dq, dkv, c), g.qk_norm, c.scratch.inner, saved.qk_norm, p.qk_norm, c.config);
  adapted_backward(du, g.q, dq, u, p.q, q_shape(c), c, DropoutSite::lora_cross_q);
  add_gate_gradient(du, saved, c);
  float* dmemory = c.last() ? c.memory.dx : c.scratch.memory;
  adapted_backward(dmemory, g.kv, dkv, c.memory.x, p.kv, kv_shape(c), c, DropoutSite::lora_cross_kv);
  if (!c.last()) scaled_add(c.memory.dx, 1, c.memory.dx, dmemory, c.memory.rows, c.config.channels);
}
