#include "self_attention.hpp"

#include <cstring>

#include "layers/kernels/elementwise.hpp"

namespace {

// Declares the factors of the value residual. The first layer has none, because the others read its values.
Mix declare_value_mix(Layout& layout, const Config& config, const std::string& name, int layer) {
  constexpr float kHalf = .5f;
  if (config.value_residual == ValueResidual::none || layer == 0) return {};
  if (config.value_residual == ValueResidual::fixed) return {.constant = kHalf};
  return declare_mix(layout, name + ".value_mix", kHalf, kHalf);
}

}  // namespace

void declare_sublayer(Attention& p, Layout& layout, const Config& config, const std::string& name, int layer) {
  const int D = config.head_dim, C = config.channels, width = Attention::inner_width(config);
  p.qkv = declare_linear(
      layout, config, name,
      {{"q", Role::qk, width}, {"k", Role::qk, config.kv_heads * D}, {"v", Role::v, config.kv_heads * D}}, C);
  p.qk_norm = declare_qk_norm(layout, config, name);
  p.unit_qk = declare_unit_qk(layout, config, name);
  p.value_mix = declare_value_mix(layout, config, name, layer);
  declare_attention_branch(p, layout, config, name, layer);
}

void declare_sublayer_saved(AttentionSaved& saved, Layout& layout, const Config& config, const std::string& name,
                            int layer, int B, int T) {
  const int N = B * T;
  layout.share(config.recompute >= Recompute::full);
  saved.qkv = layout.take(name + ".qkv", Role::qk, {N, config.qkv_width()});
  saved.qk_norm = declare_qk_norm_saved(layout, config, name, N, N);
  saved.unit_qk = declare_unit_qk_saved(layout, config, name, N);
  if (config.value_residual == ValueResidual::learned && layer > 0)
    saved.v = layout.take(name + ".v", Role::v, {N, config.kv_heads * config.head_dim});
  declare_attention_branch_saved(saved, layout, config, name, layer, B, T);
}

AttentionShape attention_shape(const Config& config, int layer, const PositionBiases& biases,
                               const Positions& positions) {
  const float scale = static_cast<float>(*config.attention_scale);
  return {.B = positions.B, .T = positions.T, .n_head = config.n_head, .kv_heads = config.kv_heads,
          .head_dim = config.head_dim, .scale = scale, .cap = config.attention_cap, .window = config.window_of(layer),
          .slopes = biases.slopes, .relative = biases.relative, .begins = positions.begins, .causal = config.causal(),
          .words = multiplies_words(config.matmul)};
}

namespace {

AttentionShape shape_of(const Attention& p, const BlockContext& c) {
  AttentionShape shape = attention_shape(c.config, c.layer, c.biases, c.positions());
  shape.sinks = p.sinks;
  return shape;
}

QkNormRows norm_rows(float* qkv, const AttentionShape& shape) {
  const auto [q, k, v, q_stride, kv_stride] = parts_of(qkv, shape);
  return {q, k, v, q_stride, kv_stride, shape.B * shape.T, shape.B * shape.T};
}

// Keeps the first layer's values, and mixes them into the other layers' values.
void share_values(const AttentionSaved& saved, const Attention& p, const BlockContext& c) {
  const int N = c.B * c.T, width = c.config.kv_heads * c.config.head_dim;
  const size_t stride = c.config.qkv_width();
  float* v = saved.qkv + stride - width;
  float* kept = c.layer == 0 ? c.carried.values : saved.v;
  if (kept) copy_rows(kept, width, v, stride, N, width);
  if (p.value_mix.present()) mix_forward(v, v, c.carried.values, p.value_mix, {N, width, stride});
}

void share_values_backward(float* dqkv, const Attention& g, const AttentionSaved& saved, const Attention& p,
                           const BlockContext& c) {
  if (!c.carried.values) return;
  const int N = c.B * c.T, width = c.config.kv_heads * c.config.head_dim;
  const size_t stride = c.config.qkv_width();
  float* dv = dqkv + stride - width;
  if (p.value_mix.present())
    return mix_backward(dv, c.carried.dvalues, !c.last(), g.value_mix, saved.v, c.carried.values, p.value_mix,
                        {N, width, stride});
  mix_forward(dv, dv, c.carried.dvalues, {.constant = 1}, {N, width, stride});  // later layers read v, too
}

// Normalizes and rotates q and k, and mixes the values. If there is a cache, adds the new keys and values to it and
// reads from it.
void attend(const AttentionSaved& saved, const Attention& p, const BlockContext& c) {
  const Config& config = c.config;
  const AttentionShape shape = shape_of(p, c);
  const size_t stride = shape.qkv_width(), kv_width = cache_width(config);
  // mixed serves as scratch here
  qk_norm_forward(norm_rows(saved.qkv, shape), saved.qk_norm, saved.mixed, p.qk_norm, config);
  share_values(saved, p, c);
  if (const RopeTable* rope = c.rope())
    rope_forward(saved.qkv, *rope, c.positions(), config.n_head + config.kv_heads, config.head_dim, stride);
  unit_qk_forward(norm_rows(saved.qkv, shape), saved.unit_qk, p.unit_qk, config);
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

void sublayer_core(const AttentionSaved& saved, const float* u, const Attention& p, const BlockContext& c) {
  adapted_forward(saved.qkv, u, p.qkv, {c.B * c.T, c.config.channels, c.config.qkv_width()}, c, DropoutSite::lora_qkv);
  attend(saved, p, c);
}

void sublayer_out(float* f, const AttentionSaved&, const float* m, const Attention& p, const BlockContext& c) {
  adapted_forward(f, m, p.o, {c.B * c.T, Attention::inner_width(c.config), c.config.channels}, c, DropoutSite::lora_o);
}

void sublayer_backward(float* du, const Attention& g, const float* df, const float* u, const AttentionSaved& saved,
                       const Attention& p, const BlockContext& c) {
  attention_branch_backward(g, df, u, saved, p, c, DropoutSite::lora_o);
  const Config& config = c.config;
  const int N = c.B * c.T, read_width = config.qkv_width();
  const float* dmixed = c.scratch.inner;
  float* dqkv = c.scratch.joined;
  const AttentionShape shape = shape_of(p, c);
  if (p.sinks) sinks_backward(g.sinks, dmixed, saved.mixed, saved.lse, shape);
  attention_backward({parts_of(dqkv, shape), c.drelative}, dmixed, saved.mixed, saved.lse, parts_of(saved.qkv, shape),
                     shape, c.dropout, c.layer);
  unit_qk_backward(norm_rows(dqkv, shape), g.unit_qk, saved.unit_qk, p.unit_qk, config);
  if (const RopeTable* rope = c.rope())
    rope_backward(dqkv, *rope, c.positions(), config.n_head + config.kv_heads, config.head_dim, read_width);
  share_values_backward(dqkv, g, saved, p, c);
  qk_norm_backward(norm_rows(dqkv, shape), g.qk_norm, c.scratch.inner, saved.qk_norm, p.qk_norm, config);
  adapted_backward(du, g.qkv, dqkv, u, p.qkv, {N, config.channels, read_width}, c, DropoutSite::lora_qkv);
  add_gate_gradient(du, saved, c);
}
