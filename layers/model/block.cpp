#include "block.hpp"

#include <algorithm>
#include <cstring>

#include "layers/feed_forward/activation.hpp"

namespace {

bool shares_norm(const Config& config) { return config.block == BlockForm::parallel_shared; }

}  // namespace

Block declare_block(Layout& layout, const Config& config, int layer) {
  const int D = config.head_dim, C = config.channels, F = config.hidden;
  layout.enter_layer(layer);
  Block p;
  declare_branch_enter(p.attention, layout, config, "attention", layer);
  p.qkv = declare_linear(layout, config, "attention",
                         {{"q", Role::qk, config.n_head * D},
                          {"k", Role::qk, config.kv_heads * D},
                          {"v", Role::v, config.kv_heads * D}},
                         C);
  p.qk_norm = declare_qk_norm(layout, config, "attention");
  declare_branch_inner(p.attention, layout, config, "attention", layer, config.n_head * D);
  p.o = declare_linear(layout, config, "attention", {{"o", Role::o, C}}, config.n_head * D);
  declare_branch_leave(p.attention, layout, config, "attention", layer);

  if (!shares_norm(config)) declare_branch_enter(p.ffn, layout, config, "ffn", layer);
  if (config.block != BlockForm::sequential) p.ffn.skip = 1;  // skip·x is in what attention's branch leaves
  std::vector<LinearPart> up = {{"up", Role::ffn_in, F}};
  if (config.gated()) up.insert(up.begin(), {"gate", Role::ffn_in, F});
  p.up = declare_linear(layout, config, "ffn", up, C);
  declare_branch_inner(p.ffn, layout, config, "ffn", layer, F);
  p.down = declare_linear(layout, config, "ffn", {{"down", Role::ffn_out, C}}, F);
  declare_branch_leave(p.ffn, layout, config, "ffn", layer);
  declare_shared_gain(p.attention, p.ffn, layout, config, layer);
  layout.leave_layer();
  return p;
}

namespace {

int up_width(const Config& config) { return config.gated() ? 2 * config.hidden : config.hidden; }

AttentionShape attention_shape(const BlockContext& c) {
  return attention_shape(c.config, c.layer, c.slopes, c.B, c.T);
}

}  // namespace

AttentionShape attention_shape(const Config& config, int layer, const float* slopes, int B, int T) {
  return {B, T, config.n_head, config.kv_heads, config.head_dim, static_cast<float>(*config.attention_scale),
          config.attention_cap, config.window_of(layer), slopes};
}

BlockSaved declare_block_saved(Layout& layout, const Config& config, int layer, int B, int T) {
  const int N = B * T, C = config.channels, width = config.n_head * config.head_dim;
  layout.enter_layer(layer);
  BlockSaved saved;
  saved.attention = declare_branch_saved(layout, config, "attention", layer, N, width);
  saved.qkv = layout.take("attention.qkv", Role::qk, {N, config.qkv_width()});
  saved.qk_norm = declare_qk_norm_saved(layout, config, "attention", N);
  saved.lse = layout.take("attention.lse", Role::attention, {B, config.n_head, T});
  saved.mixed = layout.take("attention.mixed", Role::attention, {N, width});
  if (branch_keeps_output(config, layer)) saved.attention_f = layout.take("attention.o", Role::o, {N, C});
  saved.middle = layout.take("attention.y", Role::residual, {N, C});
  saved.ffn = declare_branch_saved(layout, config, "ffn", layer, N, config.hidden, !shares_norm(config));
  saved.up = layout.take("ffn.up", Role::ffn_in, {N, up_width(config)});
  saved.active = layout.take("ffn.activation", Role::activation, {N, config.hidden});
  if (branch_keeps_output(config, layer)) saved.ffn_f = layout.take("ffn.down", Role::ffn_out, {N, C});
  saved.y = layout.take("ffn.y", Role::residual, {N, C});
  layout.leave_layer();
  return saved;
}

BlockScratch declare_block_scratch(Layout& layout, const Config& config, int B, int T, bool backward) {
  const int N = B * T, C = config.channels;
  BlockScratch scratch{};
  scratch.f = layout.take("scratch.f", Role::scratch, {N, C});
  scratch.normed = layout.take("scratch.normed", Role::scratch, {N, C});
  if (!backward) return scratch;
  if (config.block != BlockForm::sequential) scratch.du = layout.take("scratch.du", Role::scratch, {N, C});
  scratch.wide = layout.take("scratch.wide", Role::scratch, {N, std::max(config.hidden, config.n_head * config.head_dim)});
  scratch.wider = layout.take("scratch.wider", Role::scratch, {N, std::max(up_width(config), config.qkv_width())});
  return scratch;
}

namespace {

// Normalizes and turns q and k, and mixes the values; from the cache, to which the new keys and values are added, where
// there is one.
void attend(const BlockSaved& saved, const Block& p, const BlockContext& c) {
  const Config& config = c.config;
  const AttentionShape shape = attention_shape(c);
  const size_t stride = shape.qkv_width(), kv_width = cache_width(config);
  qk_norm_forward(saved.qkv, saved.qk_norm, saved.mixed, p.qk_norm, config, c.B * c.T);  // mixed is not in use yet
  if (config.position == Position::rope)
    rope_forward(saved.qkv, c.rope, c.cache.past, c.B, c.T, config.n_head + config.kv_heads, config.head_dim, stride);
  if (!c.cache.rows) return attention_forward(saved.mixed, saved.lse, saved.qkv, shape, c.dropout, c.layer);

  for (int t = 0; t < c.T; ++t)
    std::memcpy(c.cache.rows + (c.cache.past + t) * kv_width, saved.qkv + t * stride + shape.width(),
                kv_width * sizeof(float));
  const KeysValues kv{c.cache.rows, c.cache.rows + kv_width / 2, kv_width, c.cache.past};
  attention_forward(saved.mixed, saved.lse, saved.qkv, stride, kv, shape, c.dropout, c.layer);
}

// u → what norm_out reads.
const float* attention_branch(const BlockSaved& saved, const BlockScratch& scratch, const float* u, const Block& p,
                              const BlockContext& c) {
  const Config& config = c.config;
  const int N = c.B * c.T, C = config.channels, width = config.n_head * config.head_dim;
  linear_forward(saved.qkv, u, p.qkv, N, C, config.qkv_width());
  attend(saved, p, c);
  const float* m = branch_inner(saved.attention, saved.mixed, p.attention, N, width, c.training);
  float* f = saved.attention_f ? saved.attention_f : scratch.f;
  linear_forward(f, m, p.o, N, width, C);
  dropout_apply(f, c.dropout, c.layer, DropoutSite::attention_out, c.B, c.T, C);
  return f;
}

const float* ffn_branch(const BlockSaved& saved, const BlockScratch& scratch, const float* u, const Block& p,
                        const BlockContext& c) {
  const Config& config = c.config;
  const int N = c.B * c.T, C = config.channels, F = config.hidden;
  linear_forward(saved.up, u, p.up, N, C, up_width(config));
  activation_forward(saved.active, saved.up, config.activation, N, F);
  const float* m = branch_inner(saved.ffn, saved.active, p.ffn, N, F, c.training);
  float* f = saved.ffn_f ? saved.ffn_f : scratch.f;
  linear_forward(f, m, p.down, N, F, C);
  dropout_apply(f, c.dropout, c.layer, DropoutSite::ffn_out, c.B, c.T, C);
  return f;
}

// df may be the stream's gradient itself, which dropout must not touch: it works on a copy.
const float* dropout_backward(float* copy, const float* df, DropoutSite site, const BlockContext& c) {
  if (c.dropout.p == 0) return df;
  if (df != copy) std::memcpy(copy, df, static_cast<size_t>(c.B) * c.T * c.config.channels * sizeof(float));
  dropout_apply(copy, c.dropout, c.layer, site, c.B, c.T, c.config.channels);
  return copy;
}

// df → du; u as in forward.
void attention_branch_backward(float* du, const BlockScratch& scratch, const Block& g, const float* df, const float* u,
                               const BlockSaved& saved, const Block& p, const BlockContext& c) {
  const Config& config = c.config;
  const int N = c.B * c.T, C = config.channels, width = config.n_head * config.head_dim;
  df = dropout_backward(scratch.f, df, DropoutSite::attention_out, c);
  const float* m = saved.attention.m ? saved.attention.m : saved.mixed;
  linear_backward(scratch.wide, g.o, df, m, p.o, N, width, C);
  branch_inner_backward(scratch.wide, g.attention, saved.mixed, saved.attention, p.attention, N, width);
  attention_backward(scratch.wider, scratch.wide, saved.mixed, saved.lse, saved.qkv, attention_shape(c), c.dropout,
                     c.layer);
  if (config.position == Position::rope)
    rope_backward(scratch.wider, c.rope, c.B, c.T, config.n_head + config.kv_heads, config.head_dim,
                  config.qkv_width());
  qk_norm_backward(scratch.wider, g.qk_norm, scratch.wide, saved.qk_norm, p.qk_norm, config, N);
  linear_backward(du, g.qkv, scratch.wider, u, p.qkv, N, C, config.qkv_width());
}

void ffn_branch_backward(float* du, const BlockScratch& scratch, const Block& g, const float* df, const float* u,
                         const BlockSaved& saved, const Block& p, const BlockContext& c) {
  const Config& config = c.config;
  const int N = c.B * c.T, C = config.channels, F = config.hidden;
  df = dropout_backward(scratch.f, df, DropoutSite::ffn_out, c);
  const float* m = saved.ffn.m ? saved.ffn.m : saved.active;
  linear_backward(scratch.wide, g.down, df, m, p.down, N, F, C);
  branch_inner_backward(scratch.wide, g.ffn, saved.active, saved.ffn, p.ffn, N, F);
  activation_backward(scratch.wider, scratch.wide, saved.up, config.activation, N, F);
  linear_backward(du, g.up, scratch.wider, u, p.up, N, C, up_width(config));
}

void sequential_backward(float* d, const BlockScratch& scratch, const Block& g, const float* x,
                         const BlockSaved& saved, const Block& p, const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels;
  float* du = scratch.normed;

  const float* df = branch_leave_backward(d, scratch.f, g.ffn, saved.ffn_f, saved.ffn, p.ffn, N, C);
  const float* u = saved.ffn.u ? saved.ffn.u : saved.middle;
  ffn_branch_backward(du, scratch, g, df, u, saved, p, c);
  branch_enter_backward(d, g.ffn, du, saved.middle, saved.ffn, p.ffn, N, C);

  df = branch_leave_backward(d, scratch.f, g.attention, saved.attention_f, saved.attention, p.attention, N, C);
  u = saved.attention.u ? saved.attention.u : x;
  attention_branch_backward(du, scratch, g, df, u, saved, p, c);
  branch_enter_backward(d, g.attention, du, x, saved.attention, p.attention, N, C);
}

// Both branches read d = dy before either adds to it: there is no norm_sum.
void parallel_backward(float* d, const BlockScratch& scratch, const Block& g, const float* x, const BlockSaved& saved,
                       const Block& p, const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels;
  const bool shared = shares_norm(c.config);
  float *du = scratch.normed, *du_ffn = scratch.du;

  const float* df = branch_leave_backward(d, scratch.f, g.ffn, saved.ffn_f, saved.ffn, p.ffn, N, C);
  ffn_branch_backward(du_ffn, scratch, g, df, shared ? saved.attention.u : saved.ffn.u, saved, p, c);
  df = branch_leave_backward(d, scratch.f, g.attention, saved.attention_f, saved.attention, p.attention, N, C);
  attention_branch_backward(du, scratch, g, df, saved.attention.u, saved, p, c);

  if (shared) scaled_add(du, 1, du, du_ffn, N, C);
  branch_enter_backward(d, g.attention, du, x, saved.attention, p.attention, N, C);
  if (!shared) branch_enter_backward(d, g.ffn, du_ffn, x, saved.ffn, p.ffn, N, C);
}

}  // namespace

// Sequential or parallel: the feed-forward branch reads what attention left, or x; it adds to middle either way.
void block_forward(const BlockSaved& saved, const BlockScratch& scratch, const float* x, const Block& p,
                   const BlockContext& c) {
  const int N = c.B * c.T, C = c.config.channels;
  const float* u = branch_enter(saved.attention, x, p.attention, N, C, c.training);
  const float* f = attention_branch(saved, scratch, u, p, c);
  branch_leave(saved.middle, saved.attention, scratch.normed, x, f, p.attention, N, C, c.training);

  const float* read = c.config.block == BlockForm::sequential ? saved.middle : x;
  if (!shares_norm(c.config)) u = branch_enter(saved.ffn, read, p.ffn, N, C, c.training);
  f = ffn_branch(saved, scratch, u, p, c);
  branch_leave(saved.y, saved.ffn, scratch.normed, saved.middle, f, p.ffn, N, C, c.training);
}

void block_backward(float* d, const BlockScratch& scratch, const Block& g, const float* x, const BlockSaved& saved,
                    const Block& p, const BlockContext& c) {
  const auto form = c.config.block == BlockForm::sequential ? sequential_backward : parallel_backward;
  form(d, scratch, g, x, saved, p, c);
}
