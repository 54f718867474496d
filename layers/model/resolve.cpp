#include "resolve.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>
#include <type_traits>
#include <vector>

#include "layers/config/base_model.hpp"
#include "layers/config/fields.hpp"
#include "layers/config/norm_sites.hpp"
#include "layers/config/parametrization.hpp"
#include "layers/config/placements.hpp"
#include "layers/embedding/position.hpp"
#include "layers/norm/norm.hpp"

std::string spelled(const std::string& marked, const std::string& before) {
  std::string text;
  for (const char c : marked)
    if (c != '}') text += c == '{' ? before : std::string(1, c);
  return text;
}

ConfigError::ConfigError(const std::string& marked_) : std::invalid_argument(spelled(marked_, "")), marked(marked_) {}

namespace {

// CaiT (Touvron et al. 2021, arXiv 2103.17239, §2): the initial value of LayerScale's gains.
double layer_scale_by_depth(int n_layer) {
  if (n_layer <= 18) return .1;
  return n_layer <= 24 ? 1e-5 : 1e-6;
}

std::string number(double x) {
  std::string s = std::to_string(x);
  s.erase(s.find_last_not_of('0') + 1);
  if (s.back() == '.') s.pop_back();
  return s;
}

void require(bool ok, const std::string& marked) {
  if (!ok) throw ConfigError(marked);
}

// The number that a field has, if it is one.
struct NumberOf {
  const Config& config;
  template <class T>
    requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
  std::optional<double> operator()(T Config::*member) const {
    return config.*member;
  }
  std::optional<double> operator()(std::optional<double> Config::*member) const { return config.*member; }
  std::optional<double> operator()(const auto&) const { return std::nullopt; }
};

void check_range(const Config& c, const Field& f) {
  const std::optional<double> x = std::visit(NumberOf{c}, f.member);
  // Many values are floats, and .99 as a float is a little above .99.
  const double low = std::min(f.low, double(float(f.low))), high = std::max(f.high, double(float(f.high)));
  require(!x || (*x >= low && *x <= high), std::string("{") + f.name + "} is " + number(x.value_or(0)) + ": must be " +
                                               number(f.low) + " to " + number(f.high));
}

// Parallel branches both read x, and both are added to it. So each needs its norm, nothing may come between the sums,
// and both follow one row. With several streams, each branch would read its own mixture.
bool fits_parallel(const Placement& row) {
  const bool plain_sum = !row.norm_sum && !row.gpas && row.streams == StreamRule::single;
  return row.norm_in && plain_sum && !row.early && !row.ffn;
}

std::string names_where(bool (*fits)(const Placement&)) {
  std::string list;
  for (const Placement& row : placements())
    if (fits(row)) list.append(list.empty() ? "" : "|").append(row.name);
  return list;
}

// The norms that allow a unit offset and QK-norm, as "layernorm or rmsnorm".
std::string row_norms() {
  std::string list;
  for (const auto& kind : kNormKinds)
    if (norm_row(kind.value).row_norm) list.append(list.empty() ? "" : " or ").append(kind.name);
  return list;
}

bool scales_branches(const Config& c) {
  return c.branch_scale.value_or(1) != 1 || c.branch_warmup != BranchWarmup::none;
}

// How many of nGPT's parts a model has.
constexpr int kPartsOfNgpt = 5;
int parts_of_ngpt(const Config& c) {
  return (c.placement_row->streams == StreamRule::sphere) + (c.qk_norm == QkNormKind::unit) + c.up_gain +
         c.logit_gain + c.normed_weights;
}

// Settings that exclude each other, and why.
struct Contradiction {
  bool (*holds)(const Config&);
  std::string message;
};
const std::vector<Contradiction>& contradictions() {
  static const std::vector<Contradiction> rows = {
      {[](const Config& c) { return c.norm_unit_offset && c.norm == NormKind::scalenorm; },
       "{norm-unit-offset} does not go with {norm} scalenorm, whose one gain starts at sqrt(channels): leave it out"},
      {[](const Config& c) { return c.norm_unit_offset && !norm_row(c.norm).row_norm; },
       "{norm-unit-offset} goes with {norm} " + row_norms() + " only: leave it out"},
      {[](const Config& c) {
         return c.norm_unit_offset &&
                std::ranges::any_of(norms_in(c), [](const NormChoice& n) { return !norm_row(n.kind).row_norm; });
       },
       "{norm-unit-offset} goes with " + row_norms() + " only, at every site of a norm: leave it out, or choose these"},
      {[](const Config& c) { return !c.norm_gain && !norm_row(c.norm).row_norm; },
       "{norm-gain} can be left out of {norm} " + row_norms() + " only: leave it in, or choose one of these"},
      {[](const Config& c) { return !c.norm_gain && c.norm_unit_offset; },
       "{norm-unit-offset} goes with {norm-gain} only, as the gain is what it offsets: leave it out"},
      {[](const Config& c) { return c.norm_bias.value_or(false) && c.norm == NormKind::scalenorm; },
       "{norm-bias} does not go with {norm} scalenorm, which has one gain and nothing else: leave it out"},
      {[](const Config& c) { return has_qk_norms(c.placement_row->qk_norm) && !norm_row(c.norm).row_norm; },
       "{placement=} normalizes q, k and v, which goes with {norm} " + row_norms() + " only: choose one"},
      {[](const Config& c) { return has_qk_norms(c.qk_norm) && !norm_row(c.norm).row_norm; },
       "{qk-norm} goes with {norm} " + row_norms() + " only: leave it out"},
      {[](const Config& c) { return c.stream_mix && c.placement_row->streams != StreamRule::single; },
       "{stream-mix} goes with {placement}s with one residual stream only, to which all branches add: leave it out"},
      {[](const Config& c) {
         const bool normed = c.placement_row->streams == StreamRule::attnres_normed;
         return c.zero_init && (c.placement_row->norm_out || normed);
       },
       "{zero-init} does not go with a {placement} that normalizes the output of a branch: the norm of zeros "
       "multiplies gradients by 1/sqrt(eps): leave it out"},
      {[](const Config& c) { return c.zero_init && c.placement_row->gain == LearnedGain::block; },
       "{zero-init} does not go with {placement=}, whose factor and matrices would both stay at 0: leave it out"},
      {[](const Config& c) {
         return scales_branches(c) && c.placement_row->streams == StreamRule::attnres_normed;
       },
       "{placement=} normalizes what branches add, which undoes {branch-scale} and {branch-warmup}: "
       "leave them out"},
      {[](const Config& c) { return scales_branches(c) && c.placement_row->streams == StreamRule::sphere; },
       "{placement=} normalizes what branches put out, which undoes {branch-scale} and {branch-warmup}: leave them "
       "out, or set {eigen-rate-init}"},
      {[](const Config& c) { return c.zero_init && c.placement_row->streams == StreamRule::sphere; },
       "{zero-init} does not go with {placement=}, which needs the direction of what branches put out: leave it "
       "out"},
      {[](const Config& c) {
         return c.qk_norm == QkNormKind::unit && (c.crosses() || c.decoder_layers > 0);
       },
       "{qk-norm} unit is not defined for cross attention: leave it out, or {encoder-layers}"},
      {[](const Config& c) { return c.qk_norm == QkNormKind::unit && c.kv_heads != c.n_head; },
       "{qk-norm} unit has one factor for a query and its key: leave {kv-heads} out"},
      {[](const Config& c) { return c.up_gain && c.experts > 0; },
       "{up-gain} is not defined for {experts}: leave one out"},
      {[](const Config& c) { return c.logit_gain && c.fix_norm; },
       "{logit-gain} makes vectors longer that {fix-norm} has made equally long: leave one out"},
      {[](const Config& c) { return c.normed_weights && c.lora_rank > 0; },
       "{normed-weights} changes matrices that {lora} freezes: leave one out"},
      {[](const Config& c) {
         const Parametrization kind = c.parametrization;
         return (kind == Parametrization::mup || kind == Parametrization::completep) && parts_of_ngpt(c) > 0;
       },
       "{parametrization} mup and completep have no rule for nGPT, whose weights and stream have length 1 at every "
       "width: choose nugpt"},
      {[](const Config& c) {
         return c.parametrization == Parametrization::nugpt && (parts_of_ngpt(c) < kPartsOfNgpt || c.tied);
       },
       "{parametrization} nugpt is for nGPT with all of its parts and an untied head, as its preset has it: set them, "
       "or choose sp"},
      {[](const Config& c) { return c.fix_norm && c.lora_rank > 0; },
       "{fix-norm} changes the model that the adapters of {lora} belong to: leave one out"},
      {[](const Config& c) { return c.experts == 0 && c.shared_experts > 0; },
       "{shared-experts} needs {experts}, the number of those that tokens choose from: set it"},
      {[](const Config& c) { return c.objective == Objective::lm && !c.causal(); },
       "{attention} bidirectional shows each token the next one, which {objective} lm predicts: choose {objective} "
       "mlm, or {attention} causal"},
      {[](const Config& c) { return has_sources(c.objective) != c.crosses(); },
       "{objective} pairs or span and {encoder-layers} go together, as the encoder reads the sources: set both or "
       "neither"},
      {[](const Config& c) { return c.crosses() && !c.causal(); },
       "{attention} bidirectional shows a decoder the tokens that it predicts: leave it out"},
      {[](const Config& c) { return c.crosses() && c.block != BlockForm::sequential; },
       "{block} parallel has no place for cross attention: leave it out, or {encoder-layers}"},
      {[](const Config& c) { return c.crosses() && c.placement_row->one_stack; },
       "{placement} has no rule or no constants for a decoder that reads an encoder: choose another, or leave out "
       "{encoder-layers}"},
      {[](const Config& c) { return c.decoder_layers > 0 && c.placement_row->one_stack; },
       "{encoder-placement} has no rule or no constants for an encoder that a decoder reads: choose another"},
      {[](const Config& c) { return c.parametrization != Parametrization::sp && c.base_channels == 0; },
       "{parametrization} needs {base-channels}, the width at which you have tuned the learning rate: set it"},
      {[](const Config& c) { return scales_depth(c) && c.base_layers == 0; },
       "{parametrization} needs {base-layers}, the depth at which you have tuned the learning rate: set it"},
      {[](const Config& c) {
         return c.parametrization == Parametrization::completep && c.placement_row->depth == DepthRule::none;
       },
       "{parametrization} completep is not derived for {placement}s that mix streams, or the outputs of branches, by "
       "learned coefficients: choose mup, or another {placement}"},
      {[](const Config& c) {
         return c.parametrization == Parametrization::completep && has_site(c, NormSite::sum) &&
                kind_at(c, "norm_sum") == NormKind::gatednorm;
       },
       "{parametrization} completep is not derived for {norm-sum} gatednorm, whose random gate acts on the stream in "
       "every branch: choose mup, or another norm there"},
      {[](const Config& c) {
         return c.parametrization != Parametrization::sp && (c.crosses() || c.decoder_layers > 0);
       },
       "{parametrization} has no rule for cross attention, whose two stacks may differ in depth: choose sp, or leave "
       "{encoder-layers} out"},
      {[](const Config& c) { return c.parametrization != Parametrization::sp && c.lora_rank > 0; },
       "{parametrization} has no rule for adapters: choose sp, or leave {lora} out"},
      {[](const Config& c) { return c.parametrization != Parametrization::sp && c.projects(); },
       "{parametrization} has no rule for an embedding narrower than the stream: choose sp, or leave "
       "{embedding-channels} out"},
      {[](const Config& c) { return c.branch_warmup != BranchWarmup::none && c.branch_warmup_steps == 0; },
       "{branch-warmup} needs {branch-warmup-steps}, the steps in which the factor of the first block grows: set it"},
      {[](const Config& c) { return c.branch_warmup != BranchWarmup::none && c.placement_row->bypass; },
       "{branch-warmup} has no rule for the second skip path of {placement=}: choose another {placement}"},
      {[](const Config& c) { return c.head_transform && c.gated(); },
       "{head-transform} needs an {activation} without a gate, such as gelu: choose one"},
  };
  return rows;
}

// Sizes of heads and of the feed-forward layer.
void close_sizes(Config& c) {
  if (c.embedding_channels == 0) c.embedding_channels = c.channels;
  if (c.kv_heads == 0) c.kv_heads = c.n_head;
  if (c.base_heads == 0 && c.parametrization != Parametrization::sp) c.base_heads = c.n_head;
  require(c.kv_heads > 0 && c.n_head % c.kv_heads == 0,
          "{kv-heads} " + std::to_string(c.kv_heads) + " does not divide {heads} " + std::to_string(c.n_head) +
              ": each key/value head serves an equal number of query heads");
  if (c.head_dim == 0) {
    require(c.channels % c.n_head == 0, "{heads} " + std::to_string(c.n_head) + " does not divide {channels} " +
                                            std::to_string(c.channels) +
                                            ": choose heads that do, or set {head-dim}");
    c.head_dim = c.channels / c.n_head;
  }
  if (c.hidden == 0) c.hidden = c.gated() ? (8 * c.channels / 3 + 31) / 32 * 32 : 4 * c.channels;
}

void check_experts(const Config& c) {
  require(c.experts == 0 || c.experts_per_token <= c.experts,
          "{experts-per-token} " + std::to_string(c.experts_per_token) + " is more than {experts} " +
              std::to_string(c.experts) + ": choose fewer");
}

void check_lora(const Config& c) {
  if (c.lora_rank == 0) return;
  std::istringstream names(c.lora_on);
  for (std::string name; std::getline(names, name, ',');) {
    const bool ffn = (name == "gate" && c.gated()) || name == "up" || name == "down";
    require(!ffn || c.experts == 0, "{lora-on} names '" + name + "', which is many matrices in a mixture of experts: " +
                                        "choose from q,k,v,o");
    require(ffn || name == "q" || name == "k" || name == "v" || name == "o",
            "{lora-on} names '" + name + "', which is no matrix of this model: choose from q,k,v,o," +
                (c.gated() ? "gate," : "") + "up,down");
  }
  require(!c.lora_on.empty(), "{lora-on} names no matrix: choose from q,k,v,o,up,down");
}

// Whether the stretching of RoPE fades from the slow pairs to the fast ones.
bool fades(const Config& c) { return c.rope_scaling == RopeScaling::llama3 || c.rope_scaling == RopeScaling::yarn; }

void close_rope(Config& c) {
  if (c.rope_scaling == RopeScaling::none) return;
  const bool yarn = c.rope_scaling == RopeScaling::yarn;
  if (c.rope_original == 0) c.rope_original = c.context;
  if (fades(c) && c.rope_slow == 0) c.rope_slow = 1;
  if (fades(c) && c.rope_fast == 0) c.rope_fast = yarn ? 32 : 4;
  if (c.rope_magnitude) return;
  const double log = std::log(static_cast<double>(c.rope_factor)), original = std::log(c.rope_original);
  c.rope_magnitude = 1;
  if (yarn) c.rope_magnitude = .1 * log + 1;
  if (c.rope_scaling == RopeScaling::longrope && log > 0) c.rope_magnitude = std::sqrt(1 + log / original);
}

// Checks a list of longrope: a factor for each pair.
void check_rope_factors(const Config& c, const std::string& list, const char* field) {
  const std::string option = std::string("{") + field + "} ";
  size_t count = 0;
  try {
    count = rope_factors(list).size();
  } catch (const std::invalid_argument& error) {
    throw ConfigError(option + error.what());
  }
  require(count == size_t(c.rope_dims()) / 2, option + "has " + std::to_string(count) + " factors, and a head has " +
                                                  std::to_string(c.rope_dims() / 2) + " pairs: write one for each");
}

void close_layer_set(Config& c, std::string Config::*set, const char* field) {
  try {
    c.*set = shortest_layer_set(c.*set, std::max(c.n_layer, c.encoder_layers));
  } catch (const std::invalid_argument& error) {
    throw ConfigError(std::string("{") + field + "} " + error.what());
  }
}

void check_rope(const Config& c) {
  if (c.position != Position::rope) return;
  require(c.rope_fraction < 1 || c.head_dim % 2 == 0,
          "{position} rope rotates pairs and needs an even head dimension, not " + std::to_string(c.head_dim));
  require(!fades(c) || c.rope_slow < c.rope_fast, "{rope-slow} " + number(c.rope_slow) + " is not below {rope-fast} " +
                                                      number(c.rope_fast) + ": lower one, or raise the other");
  require(c.rope_scaling != RopeScaling::yarn || c.rope_theta > 1,
          "{rope-theta} is 1, and {rope-scaling} yarn needs pairs of different speeds: raise it");
  require(c.rope_scaling != RopeScaling::dynamic || c.context <= c.rope_original,
          "{rope-scaling} dynamic goes up to {rope-original} " + std::to_string(c.rope_original) +
              " here, and {context} is " + std::to_string(c.context) + ": choose yarn, or a shorter context");
  if (c.rope_scaling == RopeScaling::longrope) {
    require(c.rope_original > 1, "{rope-original} is 1, and {rope-scaling} longrope needs more: raise it");
    check_rope_factors(c, c.rope_short, "rope-short");
    check_rope_factors(c, c.rope_long, "rope-long");
  }
  require(c.rope_dims() >= 2, "{rope-fraction} " + number(c.rope_fraction) + " of a head of " +
                                  std::to_string(c.head_dim) + " is less than one pair: raise it, or {head-dim}");
}

void check_relative(const Config& c) {
  if (c.position != Position::relative) return;
  const int exact = exact_buckets(c);
  require(c.relative_distance > exact, "{relative-distance} " + std::to_string(c.relative_distance) +
                                           " is not above " + std::to_string(exact) + ", the distances that " +
                                           "{relative-buckets} tells apart: raise it");
}

// Replaces {placement=} by the option and its value.
std::string with_placement(std::string message, const Config& c) {
  constexpr std::string_view kPlace = "{placement=}";
  if (const size_t at = message.find(kPlace); at != message.npos)
    message.replace(at, kPlace.size(), "{placement} " + c.placement);
  return message;
}

void check_wiring(const Config& c) {
  require(c.block == BlockForm::sequential || fits_parallel(*c.placement_row),
          std::string("{block} ") + name_of(kBlockForms, c.block) + " needs a placement with a norm before each " +
              "branch, no norm after the sum, the same norms in both and one stream, not " + c.placement +
              ": choose " + names_where(fits_parallel) + ", or {block} sequential");
  for (const Contradiction& row : contradictions()) require(!row.holds(c), with_placement(row.message, c));
}

// Open choices follow from the head dimension, the kind of norm, the placement and the initialization.
void close_choices(Config& c) {
  const Placement& placement = *c.placement_row;
  const InitRow& init = init_row(c);
  const float root_of_head = std::sqrt(static_cast<float>(c.head_dim));
  if (!c.attention_scale && c.qk_norm == QkNormKind::unit) c.attention_scale = root_of_head * score_factor(c);
  if (!c.attention_scale) c.attention_scale = 1 / root_of_head * score_factor(c);  // as in attention.hpp
  const bool on_sphere = placement.streams == StreamRule::sphere;  // the factor is part of α (sphere.cpp)
  if (!c.branch_scale) c.branch_scale = on_sphere ? 1 : branch_factor(c);
  if (!c.embedding_scale && c.fix_norm) c.embedding_scale = std::sqrt(c.embedding_channels);
  if (!c.embedding_scale) c.embedding_scale = c.root_embedding_scale ? std::sqrt(base_width(c)) : 1;
  const double root = c.root_logit_scale ? 1 / std::sqrt(static_cast<float>(base_width(c))) : 1;
  if (!c.logit_scale) c.logit_scale = root * logit_factor(c);
  if (!c.qkv_bias) c.qkv_bias = c.bias;
  if (!c.o_bias) c.o_bias = c.bias;
  if (!c.head_scale) c.head_scale = placement.head_scale;
  if (!c.norm_bias) c.norm_bias = norm_row(c.norm).bias && c.bias;
  if (!c.final_norm) c.final_norm = placement.final_norm;
  if (!c.residual_gain) c.residual_gain = init.residual_gain;
  if (!c.init_gain) c.init_gain = init.gain(depth_of(c));
  if (!c.skip_scale) c.skip_scale = placement.skip(depth_of(c));
  if (!c.layer_scale_init) c.layer_scale_init = layer_scale_by_depth(base_depth(c));
}

// A resolved choice that is what resolve() makes of an open one is open again.
template <class Choice>
void open_again(Config& c, const Config& derived, std::optional<Choice> Config::*choice) {
  if (c.*choice == derived.*choice) (c.*choice).reset();
}

}  // namespace

Config encoder_of(const Config& decoder) {
  Config closed = decoder, e = decoder;
  constexpr std::optional<bool> Config::*kFlags[] = {&Config::norm_bias, &Config::final_norm, &Config::residual_gain,
                                                     &Config::head_scale};
  constexpr std::optional<double> Config::*kNumbers[] = {&Config::init_gain, &Config::skip_scale,
                                                         &Config::layer_scale_init};
  for (auto flag : kFlags) (closed.*flag).reset();
  for (auto number : kNumbers) (closed.*number).reset();
  close_choices(closed);
  for (auto flag : kFlags) open_again(e, closed, flag);
  for (auto number : kNumbers) open_again(e, closed, number);
  if (e.qk_norm == decoder.placement_row->qk_norm) e.qk_norm = QkNormKind::none;
  e.n_layer = decoder.encoder_layers;
  e.encoder_layers = 0;
  e.decoder_layers = decoder.n_layer;
  if (e.encoder_placement != "same") e.placement = e.encoder_placement;
  if (e.encoder_norm) {
    e.norm = *e.encoder_norm;
    e.norm_sites = {};
  }
  e.encoder_placement = "same";
  e.encoder_norm.reset();
  e.objective = Objective::mlm;  // it sees all of its input
  e.attention = e.encoder_attention;
  e.encoder_attention = Config().encoder_attention;
  return resolve(e);
}

std::vector<Config> stack_configs(const Config& config) {
  if (!config.crosses()) return {config};
  return {encoder_of(config), config};
}

Config resolve(Config c) {
  c.placement_row = &placement_row(c.placement);
  c.placement = c.placement_row->name;
  if (c.encoder_placement != "same") c.encoder_placement = placement_row(c.encoder_placement).name;
  if (c.qk_norm == QkNormKind::none) c.qk_norm = c.placement_row->qk_norm;
  if (c.attention == Attending::objective)
    c.attention = c.objective == Objective::mlm ? Attending::bidirectional : Attending::causal;
  for (const Field& field : model_fields()) check_range(c, field);
  require(c.vocab_size > 0, "{vocab-size} is 0: it must be known here");
  close_sizes(c);
  check_experts(c);
  check_lora(c);
  close_layer_set(c, &Config::rope_layers, "rope-layers");
  close_layer_set(c, &Config::window_layers, "window-layers");
  close_rope(c);
  check_rope(c);
  check_relative(c);
  check_wiring(c);
  close_choices(c);
  if (c.crosses()) encoder_of(c);  // checks it
  return c;
}
