#include "model_tensors.hpp"

#include <cmath>

#include "layers/config/parametrization.hpp"
#include "normed_weights.hpp"
#include "resolve.hpp"

namespace {

// A linear layer that other programs read.
void declare_kept(Layout& layout, const std::string& name, int out, int in) {
  layout.take_untrained(name + ".weight", Role::transform, {out, in}, 0);
  layout.take_untrained(name + ".bias", Role::transform, {out}, 0);
}

void declare_stack(StackTensors& p, Layout& layout, const Config& config) {
  const int C = config.channels;
  const Start embedding = weight_start(config, Role::embedding, config.vocab_size, config.embedding_channels);
  if (config.position == Position::learned)
    p.position = layout.take("embedding.position.weight", Role::embedding, {config.context, C}, embedding);
  if (config.position == Position::relative)
    p.relative = layout.take("relative.weight", Role::embedding, {config.relative_buckets, config.n_head}, embedding);
  if (config.token_types > 0)
    p.types = layout.take("embedding.token_type.weight", Role::embedding, {config.token_types, C}, embedding);
  if (config.embedding_norm) p.embedding_norm = declare_norm(layout, config, "embedding.norm", C);
  declare_first_norm(p, layout, config);
  for (int l = 0; l < config.n_layer; ++l) p.blocks.push_back(declare_block(layout, config, l));
  declare_last_norms(p, layout, config);
}

}  // namespace

ModelTensors declare_model(Layout& layout, const Config& config) {
  const int V = config.vocab_size, C = config.channels, E = config.embedding_channels;
  const Start embedding = weight_start(config, Role::embedding, V, E);
  ModelTensors p;
  p.token = layout.take_matrix({{"embedding.token.weight", Role::embedding, {V, E}, embedding}});
  if (config.projects())
    p.project_in = declare_linear(layout, config, "embedding", {{"project", Role::projection, C}}, E);
  if (config.crosses()) {
    layout.enter_stack(kEncoder, 0);
    declare_stack(p.encoder, layout, encoder_of(config));
  }
  layout.enter_stack("", config.encoder_layers);
  declare_stack(p, layout, config);
  if (config.head_transform) {
    p.transform = declare_linear(layout, config, "head", {{"transform", Role::transform, C}}, C);
    p.transform_norm = declare_norm(layout, config, "head.norm", C);
  }
  if (config.projects())
    p.project_out = declare_linear(layout, config, "head", {{"project", Role::projection, E}}, C);
  if (!config.tied) p.head = layout.take_matrix({{"head.weight", Role::classifier, {V, E}, embedding}});
  if (config.head_bias) p.head_bias = layout.take("head.bias", Role::classifier, {V});
  if (config.logit_gain) {
    const float root = std::sqrt(static_cast<float>(C));
    p.logit_gain = {layout.take("head.logits.gain", Role::gain, {V}, {1 / root, 0}), root};
  }
  if (config.pooler >= Pooler::dense) declare_kept(layout, "pooler", C, C);
  if (config.pooler >= Pooler::next_sentence) declare_kept(layout, "next_sentence", 2, C);
  layout.scale_starts([&](const TensorSpec& spec) { return start_factor(spec, config); });
  layout.stop_decay([&](const TensorSpec& spec) { return unit_vectors(spec, config) != UnitVectors::none; });
  return p;
}
