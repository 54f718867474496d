#include "fields.hpp"

#include <algorithm>

#include "base_model.hpp"
#include "norm_sites.hpp"
#include "placements.hpp"

namespace {

template <auto member, const auto& names>
constexpr FieldChoice kChoice = {
    [](const Config& c) { return name_of(names, c.*member); },
    [](Config& c, std::string_view field, std::string_view name) { c.*member = value_of(names, field, name); },
    [] { return names_of(names); }};

constexpr FieldChoice kPlacement = {[](const Config& c) { return c.placement.c_str(); },
                               [](Config& c, std::string_view, std::string_view name) { c.placement = name; },
                               [] { return names_of(placements()); },
                               [] {
                                 std::vector<std::string> all;
                                 for (const Placement& row : placements())
                                   all.insert(all.end(), row.aliases.begin(), row.aliases.end());
                                 return all;
                               }};

// A plain norm is its kind without a gain and a bias.
constexpr FieldChoice kNorm = {[](const Config& c) { return name_of(kNormKinds, c.norm); },
                               [](Config& c, std::string_view field, std::string_view name) {
                                 const NormChoice norm = norm_named(field, name);
                                 c.norm = norm.kind;
                                 if (!norm.plain) return;
                                 c.norm_gain = false;
                                 c.norm_bias = false;
                               },
                               norm_names};

// As config.toml of version 0.1.0 has the window's layers: one of this many.
constexpr FieldChoice kWindowEvery = {
    [](const Config&) { return ""; },
    [](Config& c, std::string_view, std::string_view period) { c.window_layers = "1 of " + std::string(period); },
    [] { return std::vector<std::string>(); }};

// "same" stands for the decoder's.
constexpr const char* kSame = "same";
template <class Names>
std::vector<std::string> or_same(const Names& names) {
  std::vector<std::string> all = names_of(names);
  all.insert(all.begin(), kSame);
  return all;
}
constexpr FieldChoice kEncoderPlacement = {
    [](const Config& c) { return c.encoder_placement.c_str(); },
    [](Config& c, std::string_view, std::string_view name) { c.encoder_placement = name; },
    [] { return or_same(placements()); }, kPlacement.aliases};
constexpr FieldChoice kEncoderNorm = {
    [](const Config& c) { return c.encoder_norm ? name_of(kNormKinds, *c.encoder_norm) : kSame; },
    [](Config& c, std::string_view field, std::string_view name) {
      if (name == kSame) c.encoder_norm.reset();
      else c.encoder_norm = value_of(kNormKinds, field, name);
    },
    [] { return or_same(kNormKinds); }};

template <NormSite site>
constexpr FieldChoice kNormAt = {
    [](const Config& c) {
      const std::optional<NormChoice>& own = c.norm_sites[static_cast<size_t>(site)];
      return own ? name_of_norm(*own) : kSame;
    },
    [](Config& c, std::string_view field, std::string_view name) {
      std::optional<NormChoice>& own = c.norm_sites[static_cast<size_t>(site)];
      if (name == kSame) own.reset();
      else own = norm_named(field, name);
    },
    [] {
      std::vector<std::string> all = norm_names();
      all.insert(all.begin(), kSame);
      return all;
    }};

constexpr const char* kNotExported = "";

// ---- needs -------------------------------------------------------------------------------------------------

constexpr Need<Config> kNorms = {.met = has_norms, .otherwise = "with {placement=}"};
constexpr Need<Config> kActs = {.met = [](const Config& c) { return norm_acts(c) || !has_norms(c); },
                                .otherwise = "on a model whose norms are all named by site"};
constexpr Need<Config> kGainActs = {.met = [](const Config& c) { return norm_gain_acts(c) || !has_norms(c); },
                                    .otherwise = "on a model whose norms are all named by site"};
template <NormSite site>
constexpr Need<Config> kSite = {.met = [](const Config& c) { return has_site(c, site); },
                                .otherwise = site == NormSite::final ? "without {final-norm}" : "with {placement=}"};
constexpr Need<Config> kMixes = {.met = [](const Config& c) { return mixes(placement_row(c.placement).streams); },
                                 .otherwise = "with {placement=}"};
constexpr Need<Config> kDepth = {.met = [](const Config& c) { return is_attnres(placement_row(c.placement).streams); },
                                 .otherwise = "with {placement=}"};
constexpr Need<Config> kGatedStreams = {
    .met = [](const Config& c) { return placement_row(c.placement).streams == StreamRule::gated; },
    .otherwise = "with {placement=}"};
constexpr Need<Config> kSkips = {
    .met = [](const Config& c) {
      const StreamRule rule = placement_row(c.placement).streams;
      return rule != StreamRule::sphere && (!is_attnres(rule) || c.residual_block > 1);
    },
    .otherwise = "with {placement=}"};
constexpr Need<Config> kSphere = {
    .met = [](const Config& c) { return placement_row(c.placement).streams == StreamRule::sphere; },
    .otherwise = "with {placement=}"};
constexpr Need<Config> kEarly = {.met = [](const Config& c) {
                                   const Placement& row = placement_row(c.placement);
                                   return row.early && row.early_blocks == 0;
                                 },
                                 .otherwise = "with {placement=}"};
constexpr Need<Config> kLayerScale = {
    .met = [](const Config& c) { return placement_row(c.placement).gain == LearnedGain::channel; },
    .otherwise = "with {placement=}"};
constexpr Need<Config> kRamps = {.met = [](const Config& c) { return c.branch_warmup != BranchWarmup::none; },
                                 .otherwise = "without {branch-warmup}"};
constexpr Need<Config> kPointwise = {
    .met = [](const Config& c) {
      return std::ranges::any_of(norms_in(c), [](const NormChoice& norm) {
        return norm.kind == NormKind::dyt || norm.kind == NormKind::derf;
      });
    },
    .otherwise = "with {norm=}"};
constexpr Need<Config> kGated = {
    .met = [](const Config& c) {
      return std::ranges::any_of(norms_in(c), [](const NormChoice& norm) { return norm.kind == NormKind::gatednorm; });
    },
    .otherwise = "with {norm=}"};
constexpr Need<Config> kGains = {
    .met = [](const Config& c) {
      return std::ranges::any_of(norms_in(c), [](const NormChoice& norm) { return !norm.plain; });
    },
    .otherwise = "without {norm-gain}"};
constexpr Need<Config> kRope = {.met = [](const Config& c) { return c.position == Position::rope; },
                                .otherwise = "with {position=}"};
constexpr Need<Config> kRelative = {.met = [](const Config& c) { return c.position == Position::relative; },
                                    .otherwise = "with {position=}"};
constexpr Need<Config> kScales = {.met = [](const Config& c) { return c.rope_scaling != RopeScaling::none; },
                                  .otherwise = "without {rope-scaling}"};
constexpr Need<Config> kFades = {.met = [](const Config& c) {
                                   return c.rope_scaling == RopeScaling::llama3 || c.rope_scaling == RopeScaling::yarn;
                                 },
                                 .otherwise = "with {rope-scaling=}"};
constexpr Need<Config> kYarn = {.met = [](const Config& c) { return c.rope_scaling == RopeScaling::yarn; },
                                .otherwise = "with {rope-scaling=}"};
constexpr Need<Config> kLong = {.met = [](const Config& c) { return c.rope_scaling == RopeScaling::longrope; },
                                .otherwise = "with {rope-scaling=}"};
constexpr Need<Config> kWindow = {.met = [](const Config& c) { return c.window > 0; }, .otherwise = "without {window}"};
constexpr Need<Config> kMasks = {.met = [](const Config& c) { return c.objective == Objective::mlm; },
                                 .otherwise = "with {objective=}"};
constexpr Need<Config> kEncoder = {.met = [](const Config& c) { return c.encoder_layers > 0; },
                                   .otherwise = "without {encoder-layers}"};
constexpr Need<Config> kExperts = {.met = [](const Config& c) { return c.experts > 0; },
                                   .otherwise = "without {experts}"};
constexpr Need<Config> kWide = {.met = [](const Config& c) { return c.parametrization != Parametrization::sp; },
                                .otherwise = "with {parametrization=}"};
constexpr Need<Config> kDeep = {.met = scales_depth, .otherwise = "with {parametrization=}"};
constexpr Need<Config> kLora = {.met = [](const Config& c) { return c.lora_rank > 0; }, .otherwise = "without {lora}"};

// ---- rows --------------------------------------------------------------------------------------------------

struct Group {
  const char* heading;
  std::vector<Field> fields;
};

std::vector<Field> sizes_and_wiring() {
  return {
      {.name = "layers", .help = "number of blocks (L)", .member = &Config::n_layer, .low = 1, .high = 10000,
       .exported = "num_hidden_layers", .dimension = true, .common = true},
      {.name = "encoder-layers", .help = "blocks of an encoder, read by cross attention (0: none)",
       .member = &Config::encoder_layers, .high = 10000, .exported = kNotExported, .dimension = true},
      {.name = "heads", .help = "number of query heads (H)", .member = &Config::n_head, .low = 1, .high = 4096,
       .exported = "num_attention_heads", .common = true},
      {.name = "kv-heads", .help = "number of key/value heads (default: as {heads})", .member = &Config::kv_heads,
       .high = 4096, .derived_if_0 = true, .exported = "num_key_value_heads"},
      {.name = "head-dim", .help = "head size D (default: channels / heads)", .member = &Config::head_dim,
       .high = 1 << 14, .derived_if_0 = true},
      {.name = "channels", .help = "residual stream width (C)", .member = &Config::channels, .low = 1,
       .high = 1 << 20, .exported = "hidden_size", .dimension = true, .common = true},
      {.name = "embedding-channels", .help = "token embedding width, projected to {channels} and back",
       .member = &Config::embedding_channels, .high = 1 << 20, .derived_if_0 = true, .follows = "channels"},
      {.name = "hidden", .help = "feed-forward width (default: 4 C; gated: 8/3 C)", .member = &Config::hidden,
       .high = 1 << 22, .derived_if_0 = true, .exported = "intermediate_size"},
      {.name = "context", .help = "context length (T, in tokens)", .member = &Config::context, .low = 1,
       .high = 1 << 22, .exported = "max_position_embeddings", .common = true},
      {.name = "vocab-size", .help = "vocabulary size (default: the data's, or that of --size)",
       .member = &Config::vocab_size, .high = 1 << 24, .derived_if_0 = true},
      {.name = "objective", .help = "predicted: next tokens (lm), masks (mlm), targets (pairs), spans (span)",
       .member = kChoice<&Config::objective, kObjectives>, .common = true},
      {.name = "mask-fraction", .help = "share of tokens that mlm predicts", .member = &Config::mask_fraction,
       .low = .01, .high = .99, .exported = kNotExported, .needs = {kMasks}, .training = true},
      {.name = "block", .help = "arrangement of attention and feed-forward branches",
       .member = kChoice<&Config::block, kBlockForms>},
      {.name = "activation", .help = "feed-forward activation", .member = kChoice<&Config::activation, kActivations>},
      {.name = "up-gain", .help = "learned factors on hidden channels, times sqrt(C) (nGPT)",
       .member = &Config::up_gain},
      {.name = "bias", .help = "bias in linear layers and norms", .member = &Config::bias},
      {.name = "qkv-bias", .help = "query, key and value bias (default: as {bias})", .member = &Config::qkv_bias},
      {.name = "o-bias", .help = "attention output bias (default: as {bias})", .member = &Config::o_bias},
      {.name = "head-bias", .help = "bias in the classifier", .member = &Config::head_bias},
      {.name = "tied", .help = "classifier shares the token embedding", .member = &Config::tied,
       .exported = "tie_word_embeddings"},
      {.name = "embedding-scale", .help = "token embedding scale (default: 1; gemma2, fix-norm: sqrt(C))",
       .member = &Config::embedding_scale, .low = 1e-6, .high = 1e6},
      {.name = "token-types", .help = "learned token types, the first of which is added (BERT: 2)",
       .member = &Config::token_types, .high = 1 << 10},
      {.name = "head-transform", .help = "linear layer, activation and norm before the classifier (BERT)",
       .member = &Config::head_transform},
      {.name = "logit-scale",
       .help = "factor on logits, before their cap (default: as {parametrization}; t5: 1/sqrt(C))",
       .member = &Config::logit_scale, .low = 1e-6, .high = 1e6},
      {.name = "logit-gain", .help = "learned factor on each token's logit (nGPT)", .member = &Config::logit_gain},
      {.name = "logit-cap", .help = "soft cap on logits (0: off)", .member = &Config::logit_cap, .high = 1e6},
      {.name = "stream-mix", .help = "learned sum of stream and embedding before each block",
       .member = &Config::stream_mix},
      {.name = "dropout", .help = "dropout probability during training", .member = &Config::dropout, .high = .99,
       .exported = kNotExported, .training = true},
      {.name = "z-loss", .help = "weight of the z-loss during training (PaLM: 1e-4; 0: off)", .member = &Config::z_loss,
       .high = 1, .exported = kNotExported, .training = true},
      {.name = "label-smoothing", .help = "share of each target that goes to all tokens (Vaswani: 0.1)",
       .member = &Config::label_smoothing, .high = .99, .exported = kNotExported, .training = true},
  };
}

// `exported` has the norms of each layer in the place of the placement.
std::vector<Field> norms() {
  return {
      {.name = "placement", .help = "norm placement", .member = kPlacement, .exported = kNotExported, .common = true},
      {.name = "norm", .help = "normalization", .member = kNorm, .needs = {kNorms, kActs}, .common = true},
      {.name = "norm-in", .help = "norm before each branch", .member = kNormAt<NormSite::in>,
       .exported = kNotExported, .needs = {kSite<NormSite::in>}},
      {.name = "norm-inner", .help = "norm before the last matrix of each branch", .member = kNormAt<NormSite::inner>,
       .exported = kNotExported, .needs = {kSite<NormSite::inner>}},
      {.name = "norm-out", .help = "norm after each branch", .member = kNormAt<NormSite::out>,
       .exported = kNotExported, .needs = {kSite<NormSite::out>}},
      {.name = "norm-sum", .help = "norm after the sum of branch and stream", .member = kNormAt<NormSite::sum>,
       .exported = kNotExported, .needs = {kSite<NormSite::sum>}},
      {.name = "norm-final", .help = "norm before the classifier, if there is one",
       .member = kNormAt<NormSite::final>, .exported = kNotExported, .needs = {kSite<NormSite::final>}},
      {.name = "norm-eps", .help = "norm epsilon, inside the square root", .member = &Config::norm_eps, .high = 1,
       .needs = {kNorms}},
      {.name = "encoder-placement", .help = "norm placement of the encoder's blocks", .member = kEncoderPlacement,
       .exported = kNotExported, .needs = {kEncoder}},
      {.name = "encoder-norm", .help = "normalization in the encoder", .member = kEncoderNorm,
       .exported = kNotExported, .needs = {kEncoder}},
      {.name = "norm-bias", .help = "norm bias (default: as {bias}, if the norm has one)",
       .member = &Config::norm_bias, .needs = {kNorms, kActs}, .follows = "norm"},
      {.name = "norm-gain", .help = "learned gain in layernorm and rmsnorm", .member = &Config::norm_gain,
       .needs = {kNorms, kGainActs}},
      {.name = "norm-gain-init", .help = "initial gain (scalenorm: times sqrt(C))", .member = &Config::norm_gain_init,
       .high = 1e3, .exported = kNotExported, .needs = {kNorms, kGains}, .initial = true},
      {.name = "norm-unit-offset", .help = "gain 1 + w in layernorm and rmsnorm (Gemma)",
       .member = &Config::norm_unit_offset, .needs = {kNorms}},
      {.name = "dyt-alpha", .help = "initial alpha of dyt and derf", .member = &Config::dyt_alpha, .high = 1e3,
       .exported = kNotExported, .needs = {kPointwise, kNorms}, .training = true},
      {.name = "gated-norm-rank", .help = "rank of gatednorm's gate", .member = &Config::gated_norm_rank, .low = 1,
       .high = 4096, .needs = {kGated, kNorms}},
      {.name = "mix-fraction", .help = "fraction of Post-LN blocks under mix-ln", .member = &Config::mix_fraction,
       .high = 1, .exported = kNotExported, .needs = {kEarly}},
      {.name = "streams", .help = "number of residual streams, if branches mix them", .member = &Config::streams,
       .low = 1, .high = kMostStreams, .exported = kNotExported, .needs = {kMixes}},
      {.name = "residual-block", .help = "branches in each block of attention residuals (1: full)",
       .member = &Config::residual_block, .low = 1, .high = 1 << 20, .exported = kNotExported, .needs = {kDepth}},
      {.name = "gated-residual-rank", .help = "rank of the gates under gated-residual",
       .member = &Config::gated_residual_rank, .low = 1, .high = 4096, .exported = kNotExported,
       .needs = {kGatedStreams}},
      {.name = "embedding-norm", .help = "norm after the embedding", .member = &Config::embedding_norm},
      {.name = "fix-norm", .help = "word vectors of length 1, in embedding and classifier (FixNorm)",
       .member = &Config::fix_norm, .exported = kNotExported},
      {.name = "final-norm", .help = "whether a norm precedes the classifier (default: as {placement})",
       .member = &Config::final_norm, .follows = "placement"},
      {.name = "qk-norm", .help = "query and key norm: per head, all heads, nGPT's (unit)",
       .member = kChoice<&Config::qk_norm, kQkNormKinds>},
  };
}

std::vector<Field> attention_and_positions() {
  return {
      {.name = "position", .help = "positional encoding", .member = kChoice<&Config::position, kPositions>},
      {.name = "relative-buckets", .help = "buckets of distances, each with a learned bias (T5: 32)",
       .member = &Config::relative_buckets, .low = 4, .high = 1 << 12, .needs = {kRelative}},
      {.name = "relative-distance", .help = "distance from which all share the last bucket (T5: 128)",
       .member = &Config::relative_distance, .low = 2, .high = 1 << 22, .needs = {kRelative}},
      {.name = "rope-theta", .help = "RoPE base", .member = &Config::rope_theta, .low = 1, .high = 1e12,
       .exported = kNotExported, .needs = {kRope}},
      {.name = "rope-fraction", .help = "fraction of each head that RoPE rotates", .member = &Config::rope_fraction,
       .high = 1, .exported = kNotExported, .needs = {kRope}},
      {.name = "rope-layers", .help = "layers with RoPE: all, none, 3 of 4, 0,4,8", .member = &Config::rope_layers,
       .exported = kNotExported, .needs = {kRope}},
      {.name = "rope-scaling", .help = "stretching of RoPE for a longer context",
       .member = kChoice<&Config::rope_scaling, kRopeScalings>, .exported = kNotExported, .needs = {kRope}},
      {.name = "rope-factor", .help = "how far RoPE is stretched", .member = &Config::rope_factor, .low = 1,
       .high = 1e6, .exported = kNotExported, .needs = {kRope, kScales}},
      {.name = "rope-original", .help = "context before stretching (0: {context})", .member = &Config::rope_original,
       .high = 1 << 30, .derived_if_0 = true, .exported = kNotExported, .needs = {kRope, kScales}},
      {.name = "rope-slow", .help = "turns in that context below which all is stretched (0: 1)",
       .member = &Config::rope_slow, .high = 1e6, .derived_if_0 = true, .exported = kNotExported,
       .needs = {kRope, kFades}},
      {.name = "rope-fast", .help = "turns above which nothing is stretched (0: yarn 32, llama3 4)",
       .member = &Config::rope_fast, .high = 1e6, .derived_if_0 = true, .exported = kNotExported,
       .needs = {kRope, kFades}},
      {.name = "rope-truncate", .help = "yarn fades between whole pairs", .member = &Config::rope_truncate,
       .exported = kNotExported, .needs = {kRope, kYarn}},
      {.name = "rope-short", .help = "factor of each pair in examples up to {rope-original}",
       .member = &Config::rope_short, .exported = kNotExported, .needs = {kRope, kLong}},
      {.name = "rope-long", .help = "factor of each pair in longer examples", .member = &Config::rope_long,
       .exported = kNotExported, .needs = {kRope, kLong}},
      {.name = "rope-magnitude", .help = "factor on RoPE's output (default: as {rope-scaling})",
       .member = &Config::rope_magnitude, .low = 1e-3, .high = 1e3, .exported = kNotExported,
       .needs = {kRope, kScales}, .follows = "rope-scaling"},
      {.name = "attention", .help = "which keys a query sees (objective: causal for lm, else bidirectional)",
       .member = kChoice<&Config::attention, kAttendings>},
      {.name = "encoder-attention", .help = "which keys a query of the encoder sees",
       .member = kChoice<&Config::encoder_attention, kEncoderAttendings>, .exported = kNotExported,
       .needs = {kEncoder}},
      {.name = "window", .help = "sliding attention window (tokens; 0: off)", .member = &Config::window,
       .high = 1 << 22, .exported = kNotExported},
      {.name = "window-layers", .help = "layers with the window: all, 5 of 6, 0,4,8",
       .member = &Config::window_layers, .exported = kNotExported, .needs = {kWindow}},
      {.name = "window-rope-theta", .help = "RoPE base in layers with the window (default: rope-theta)",
       .member = &Config::window_rope_theta, .low = 1, .high = 1e12, .exported = kNotExported,
       .needs = {kRope, kWindow}},
      {.name = "attention-cap", .help = "soft cap on attention scores (0: off)", .member = &Config::attention_cap,
       .high = 1e6},
      {.name = "attention-scale", .help = "attention score scale (default: 1/sqrt(head-dim); ngpt: sqrt(head-dim))",
       .member = &Config::attention_scale, .low = 1e-6, .high = 1e3},
      {.name = "attention-sinks", .help = "learned logit per head in the softmax, without a value",
       .member = &Config::attention_sinks},
      {.name = "output-gate", .help = "sigmoid gate on the output of attention",
       .member = kChoice<&Config::output_gate, kOutputGates>},
      {.name = "head-scale", .help = "learned factor on each head (default: as {placement})",
       .member = &Config::head_scale, .follows = "placement"},
      {.name = "value-residual", .help = "mix of the first layer's values into later ones",
       .member = kChoice<&Config::value_residual, kValueResiduals>},
  };
}

std::vector<Field> experts() {
  return {
      {.name = "experts", .help = "number of feed-forward experts (0: one feed-forward layer)",
       .member = &Config::experts, .high = 4096},
      {.name = "experts-per-token", .help = "experts that the router chooses for each token",
       .member = &Config::experts_per_token, .low = 1, .high = 256, .needs = {kExperts}},
      {.name = "shared-experts", .help = "additional experts that every token uses", .member = &Config::shared_experts,
       .high = 256},
      {.name = "router-renormalize", .help = "make the weights of a token's experts sum to 1",
       .member = &Config::router_renormalize, .needs = {kExperts}},
      {.name = "router-logit-bias", .help = "learned bias of the router's logits",
       .member = &Config::router_logit_bias, .needs = {kExperts}},
      {.name = "router-loss", .help = "weight of the load-balancing loss (0: off)", .member = &Config::router_loss,
       .high = 1e3, .exported = kNotExported, .needs = {kExperts}, .training = true},
      {.name = "router-z-loss", .help = "weight of the router's z-loss (ST-MoE: 1e-3; 0: off)",
       .member = &Config::router_z_loss, .high = 1e3, .exported = kNotExported, .needs = {kExperts},
       .training = true},
      {.name = "router-bias", .help = "step of the load-balancing bias (DeepSeek-V3: 1e-3; 0: off)",
       .member = &Config::router_bias, .high = 1, .exported = kNotExported, .needs = {kExperts}},
  };
}

std::vector<Field> initialization() {
  return {
      {.name = "init", .help = "distribution of the initial weights", .member = kChoice<&Config::init, kInitChoices>,
       .exported = kNotExported, .initial = true},
      {.name = "zero-init", .help = "output matrices of both branches start at 0", .member = &Config::zero_init,
       .exported = kNotExported, .initial = true},
      {.name = "residual-gain", .help = "scale output matrices by 1/sqrt(2L) (default: as {init})",
       .member = &Config::residual_gain, .exported = kNotExported, .initial = true},
      {.name = "init-gain", .help = "gain of v, o and feed-forward weights (default: as {init})",
       .member = &Config::init_gain, .high = 1e3, .exported = kNotExported, .initial = true},
      {.name = "skip-scale", .help = "skip connection scale (default: as {placement})", .member = &Config::skip_scale,
       .high = 1e3, .needs = {kSkips}, .follows = "placement"},
      {.name = "branch-scale", .help = "factor on each branch's output (default: as {parametrization})",
       .member = &Config::branch_scale, .low = 1e-6, .high = 1e3},
      {.name = "normed-weights", .help = "weight vectors of length 1 after each step (nGPT)",
       .member = &Config::normed_weights, .exported = kNotExported, .training = true},
      {.name = "branch-warmup", .help = "factor on branches that grows with the steps to 1",
       .member = kChoice<&Config::branch_warmup, kBranchWarmups>, .exported = kNotExported},
      {.name = "branch-warmup-steps", .help = "steps of that growth (prores: times the block's number)",
       .member = &Config::branch_warmup_steps, .high = 1 << 30, .exported = kNotExported, .needs = {kRamps}},
      {.name = "eigen-rate-init", .help = "initial eigen learning rate under ngpt", .member = &Config::eigen_rate_init,
       .low = 1e-6, .high = 1, .exported = kNotExported, .needs = {kSphere}},
      {.name = "layer-scale-init", .help = "initial LayerScale gain (default: by depth)",
       .member = &Config::layer_scale_init, .high = 1e3, .exported = kNotExported, .needs = {kLayerScale},
       .follows = "placement", .initial = true},
  };
}

// Exports hold the factors that follow from them.
std::vector<Field> parametrization() {
  return {
      {.name = "parametrization", .help = "scaling rules for width and depth",
       .member = kChoice<&Config::parametrization, kParametrizations>, .exported = kNotExported, .training = true},
      {.name = "base-channels", .help = "channels of the model that is tuned", .member = &Config::base_channels,
       .high = 1 << 20, .exported = kNotExported, .needs = {kWide}, .training = true},
      {.name = "base-layers", .help = "its layers", .member = &Config::base_layers, .high = 10000,
       .exported = kNotExported, .needs = {kDeep}, .training = true},
      {.name = "base-heads", .help = "its heads (0: as {heads}, which then get wider)",
       .member = &Config::base_heads, .high = 4096, .derived_if_0 = true, .exported = kNotExported, .needs = {kWide},
       .training = true},
  };
}

std::vector<Field> lora() {
  return {
      {.name = "lora", .help = "rank of low-rank adapters, which alone train (0: off)", .member = &Config::lora_rank,
       .high = 4096, .exported = kNotExported},
      {.name = "lora-alpha", .help = "adapters are scaled by alpha / rank", .member = &Config::lora_alpha,
       .low = 1e-6, .high = 1e6, .exported = kNotExported, .needs = {kLora}},
      {.name = "lora-dropout", .help = "dropout on the input of the adapters", .member = &Config::lora_dropout,
       .high = .99, .exported = kNotExported, .needs = {kLora}, .training = true},
      {.name = "lora-on", .help = "matrices with adapters, from q,k,v,o,gate,up,down", .member = &Config::lora_on,
       .exported = kNotExported, .needs = {kLora}},
  };
}

std::vector<Field> not_shown() {
  return {{.name = "window-every", .help = "sliding window in every Nth layer", .member = kWindowEvery,
           .exported = kNotExported},
          // Follows from the class of the model in transformers.
          {.name = "lora-shared", .help = "joined matrices whose adapters share A, of qkv,gate_up",
           .member = &Config::lora_shared, .exported = kNotExported},
          // Follows from the tensors of a file of transformers.
          {.name = "pooler", .help = "layers of BERT that are kept but not trained",
           .member = kChoice<&Config::pooler, kPoolers>, .exported = kNotExported, .training = true}};
}

std::vector<Field> computing() {
  return {{.name = "matmul", .help = "matmul input precision, with fp32 elsewhere",
           .member = kChoice<&Config::matmul, kMatmuls>, .exported = kNotExported},
          {.name = "recompute", .help = "activation checkpointing, for less memory and more time",
           .member = kChoice<&Config::recompute, kRecomputes>, .exported = kNotExported, .may_change = true,
           .alone = "full"}};
}

}  // namespace

const std::vector<Field>& model_fields() {
  static const std::vector<Field> rows = [] {
    std::vector<Field> all;
    for (Group& group : std::vector<Group>{{"Model", sizes_and_wiring()},
                                           {"Norms", norms()},
                                           {"Attention and positions", attention_and_positions()},
                                           {"Mixture of experts", experts()},
                                           {"Weight initialization", initialization()},
                                           {"Parametrization", parametrization()},
                                           {"LoRA", lora()},
                                           {"", not_shown()},
                                           {kComputing, computing()}})
      for (Field& field : group.fields) {
        field.group = group.heading;
        all.push_back(std::move(field));
      }
    return all;
  }();
  return rows;
}
