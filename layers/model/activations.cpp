#include "activations.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "layers/config/parametrization.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "model_tensors.hpp"
#include "resolve.hpp"

namespace {

TransformSaved declare_transform_saved(Layout& layout, const Config& config, int N) {
  const std::vector<int> shape = {N, config.channels};
  TransformSaved saved;
  saved.up = layout.take("head.transform", Role::transform, shape);
  saved.active = layout.take("head.activation", Role::activation, shape);
  saved.norm = declare_norm_saved(layout, config, "head.norm", N, config.channels);
  saved.y = layout.take("head.norm", Role::norm, shape);
  return saved;
}

// B·T and T·C fit into ints, because a larger step would not fit into any machine's memory.
void require_int_sizes(const Config& config, int B, int T) {
  constexpr size_t kMost = 0x7fffffff;
  const size_t S = static_cast<size_t>(stream_count(config));
  const size_t widest = static_cast<size_t>(std::max(config.channels, config.embedding_channels));
  if (checked_product({S, size_t(B), size_t(T)}) > kMost || checked_product({size_t(T), widest}) > kMost)
    throw std::overflow_error("a batch of " + std::to_string(B) + " x " + std::to_string(T) +
                              " tokens is too large: lower the batch or the context");
}

// The sums that branches read again if they attend over depth (depth.hpp).
std::vector<const float*> finished_sums_of(const StackActivations& a, const Config& config) {
  std::vector<const float*> v = {a.streams};
  for (int branch = 1; branch < config.branches() * config.n_layer; ++branch) {
    const BlockSaved& block = a.blocks[(branch - 1) / config.branches()];
    if (begins_sum(config, branch)) v.push_back(branch % config.branches() == 0 ? block.ffn.y : block.attention.y);
  }
  return v;
}

void declare_stack_activations(StackActivations& a, Layout& layout, const Config& config, int B, int T, bool training) {
  const int C = config.channels, N = B * T, S = stream_count(config);
  if (config.projects()) a.token = layout.take("embedding.token", Role::projection, {N, config.embedding_channels});
  a.embedded = layout.take("embedding", Role::embedding, {N, C});
  a.x = a.embedded;
  if (config.embedding_norm) {
    a.embedding_norm = declare_norm_saved(layout, config, "embedding.norm", N, C);
    a.x = layout.take("embedding.norm", Role::norm, {N, C});
  }
  a.streams = S > 1 ? layout.take("streams", Role::residual, {S * N, C}) : a.x;
  if (stream_rule(config) == StreamRule::siamese)
    a.first_norm = declare_norm_saved(layout, config, "streams.first_norm", N, C);
  for (int l = 0; l < config.n_layer; ++l)
    a.blocks.push_back(declare_block_saved(layout, config, l, B, T, training));
  a.end = declare_streams_end(layout, config, N);
  a.carried = declare_carried(layout, config, a.x, N, training);
  if (const size_t size = RelativeBuckets::size(config); size > 0)
    a.relative = layout.take("scratch.relative", Role::scratch, {config.n_head, static_cast<int>(size)});
  if (training) a.d = layout.take("scratch.gradient", Role::scratch, {S * N, C});
  if (training && config.projects())
    a.dnarrow = layout.take("scratch.narrow_gradient", Role::scratch, {N, config.embedding_channels});
  a.scratch = declare_block_scratch(layout, config, B, T, training);
  if (is_attnres(stream_rule(config))) a.scratch.streams.depth.v = finished_sums_of(a, config);
  a.end.scratch = a.scratch.streams;
}

}  // namespace

Activations declare_activations(Layout& layout, const Config& config, int B, int T, bool training) {
  for (const Config& stack : stack_configs(config)) require_int_sizes(stack, B, T);
  const int N = B * T, V = config.vocab_size, E = config.embedding_channels;
  Activations a;
  UnitRows rows;
  if (config.fix_norm) rows = declare_unit_rows(layout, "embedding.token", V, E, training);
  if (config.crosses()) {
    layout.enter_stack(kEncoder, 0);
    declare_stack_activations(a.encoder, layout, encoder_of(config), B, T, training);
    a.encoder.token_rows = rows;
  }
  layout.enter_stack("", config.encoder_layers);
  declare_stack_activations(a, layout, config, B, T, training);
  a.token_rows = a.head_rows = rows;
  if (config.logit_gain || (config.fix_norm && !config.tied))
    a.head_rows = declare_unit_rows(layout, "head", V, E, training);
  if (config.head_transform) a.transform = declare_transform_saved(layout, config, N);
  if (config.projects()) a.narrow = layout.take("head.project", Role::projection, {N, E});
  a.losses = layout.take("loss", Role::classifier, {N});
  a.logits = layout.take("scratch.logits", Role::logits, {classifier_rows(N, V), V});
  a.table = layout.table();
  return a;
}

Activations allocate_activations(const Config& config, int B, int T, bool training) {
  Layout measure;
  declare_activations(measure, config, B, T, training);
  Buffer buffer = allocate(measure.size());
  Layout layout(buffer.get());
  Activations a = declare_activations(layout, config, B, T, training);
  a.buffer = std::move(buffer);
  return a;
}
