#pragma once
// Every form of a block: each placement, parallel branches, QK-norms, mixtures of experts.

#include "layers/model/model.hpp"

struct Form {
  std::string name, placement;
  BlockForm block = BlockForm::sequential;
  QkNormKind qk_norm = QkNormKind::none;
  int experts = 0;
  int encoder_layers = 0;
  std::string encoder_placement = "same";
  std::optional<NormKind> encoder_norm = {};
  Attending encoder_attention = Attending::bidirectional;
  std::array<std::optional<NormChoice>, kNormSiteCount> norm_sites = {};
  int residual_block = 1;

  // QK-norms work on single rows, so they exist for two norms only.
  bool takes(NormKind kind) const {
    const bool none = qk_norm == QkNormKind::none && placement_row(placement).qk_norm == QkNormKind::none;
    return none || kind == NormKind::layernorm || kind == NormKind::rmsnorm;
  }

  void apply(Config& c) const {
    c.placement = placement, c.block = block, c.qk_norm = qk_norm, c.streams = 3;
    c.mix_fraction = .5;  // both kinds of layers even in a shallow model
    c.experts = experts, c.shared_experts = experts > 0;
    c.norm_sites = norm_sites, c.residual_block = residual_block;
    c.encoder_layers = encoder_layers, c.encoder_placement = encoder_placement, c.encoder_norm = encoder_norm;
    c.encoder_attention = encoder_attention;
    if (encoder_layers > 0) c.objective = Objective::pairs;
    c.router_loss = 0, c.router_z_loss = .1f;  // the balance loss depends on the micro-batches
    if (block != BlockForm::sequential) c.skip_scale = 1.3;  // a parallel block must scale x once, not per branch
  }
};

inline std::vector<Form> forms() {
  std::vector<Form> list;
  for (const Placement& row : placements()) list.push_back({row.name, row.name});
  for (const char* placement : {"pre", "sandwich", "lns", "sub-ln", "layerscale"}) {
    list.push_back({std::string(placement) + " parallel", placement, BlockForm::parallel});
    list.push_back({std::string(placement) + " parallel-shared", placement, BlockForm::parallel_shared});
  }
  list.push_back({"pre head", "pre", BlockForm::sequential, QkNormKind::head});
  list.push_back({"reordered full", "reordered", BlockForm::sequential, QkNormKind::full});
  list.push_back({"sub-ln parallel-shared head", "sub-ln", BlockForm::parallel_shared, QkNormKind::head});
  const BlockForm sequential = BlockForm::sequential;
  for (const char* placement : {"pre", "sub-ln", "deepnorm"})
    list.push_back({std::string(placement) + " experts", placement, sequential, QkNormKind::none, 3});
  list.push_back({"sub-ln parallel experts", "sub-ln", BlockForm::parallel, QkNormKind::none, 3});
  constexpr NormChoice plain_rms = {NormKind::rmsnorm, true}, plain_layer = {NormKind::layernorm, true};
  constexpr NormChoice scale = {NormKind::scalenorm}, dyt = {NormKind::dyt}, derf = {NormKind::derf};
  list.push_back({.name = "sandwich norms", .placement = "sandwich",
                  .norm_sites = {scale, {}, plain_rms, {}, NormChoice{NormKind::rmsnorm}}});
  list.push_back({.name = "sub-ln norms", .placement = "sub-ln", .qk_norm = QkNormKind::head,
                  .norm_sites = {plain_layer, dyt, {}, {}, derf}});
  list.push_back({.name = "attnres by 3", .placement = "attnres", .residual_block = 3});
  list.push_back({.name = "attnres-normed by 2", .placement = "attnres-normed", .residual_block = 2});
  list.push_back({.name = "mix-ln norms", .placement = "mix-ln", .norm_sites = {scale, {}, {}, derf, {}}});
  return list;
}

// The same with an encoder, for each placement that has constants for it.
inline std::vector<Form> forms_with_encoder() {
  std::vector<Form> list;
  const auto add = [&](Form form) {
    form.name += " with encoder";
    if (form.encoder_layers == 0) form.encoder_layers = 2;
    list.push_back(form);
  };
  for (const Placement& row : placements())
    if (!row.one_stack) add({row.name, row.name});
  add({.name = "pre head", .placement = "pre", .qk_norm = QkNormKind::head});
  add({.name = "deepnorm full", .placement = "deepnorm", .qk_norm = QkNormKind::full, .encoder_layers = 3});
  add({.name = "sub-ln experts", .placement = "sub-ln", .experts = 3});
  add({.name = "pre, deepnorm", .placement = "pre", .encoder_layers = 1, .encoder_placement = "deepnorm",
       .encoder_norm = NormKind::rmsnorm});
  add({.name = "pre, post, norms", .placement = "pre", .encoder_placement = "post",
       .norm_sites = {NormChoice{NormKind::rmsnorm}, {}, {}, NormChoice{NormKind::dyt},
                      NormChoice{NormKind::scalenorm}}});
  add({.name = "post, hyper", .placement = "post", .encoder_placement = "hyper"});
  add({.name = "mhc, resi-dual", .placement = "mhc", .encoder_placement = "resi-dual",
       .encoder_attention = Attending::causal});
  return list;
}

// Llama's norm, positional encoding and feed-forward layer, and two key/value heads.
inline void like_llama(Config& c) {
  c.norm = NormKind::rmsnorm, c.position = Position::rope, c.activation = Activation::swiglu;
  c.bias = c.tied = false, c.kv_heads = 2;
}

// Gives learned gains values other than 0. ReZero's start at 0, where branches have no effect, and so do the gates of
// GPAS, which then have none.
inline void set_learned_gains(Model& model) {
  for (const TensorSpec& spec : model.table)
    if (spec.name.ends_with(".scale.gain") || spec.name.ends_with(".gpas.gate"))
      for (size_t i = 0; i < spec.size(); ++i) model.weights[spec.offset + i] = .5f + .1f * static_cast<float>(i % 7);
}

// A small model of this form, otherwise like GPT-2 or Llama.
inline Config small_config(const Form& form, NormKind kind, bool llama) {
  Config config;
  form.apply(config);
  config.norm = kind;
  config.n_layer = 2, config.n_head = 4, config.channels = 12, config.head_dim = 6, config.context = 11;
  config.vocab_size = 13, config.gated_norm_rank = config.gated_residual_rank = 3;
  config.position = llama ? Position::rope : Position::learned;
  config.activation = llama ? Activation::swiglu : Activation::gelu;
  config.bias = config.tied = !llama;
  config.kv_heads = llama ? 2 : 4;
  config.embedding_norm = llama;
  return config;
}
inline std::string title_of(const Form& form, NormKind kind, bool llama) {
  return form.name + " " + name_of(kNormKinds, kind) + (llama ? " llama" : " gpt2");
}
