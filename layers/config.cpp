#include "config.hpp"

#include <algorithm>
#include <cmath>

// ---- placements ------------------------------------------------------------------------------------------

namespace {

double one(int) { return 1; }
// DeepNet, decoder-only (Wang et al. 2022, arXiv 2203.00555, table in fig. 2): α = (2L)^¼, β = (8L)^-¼.
double deepnorm_alpha(int n_layer) { return std::pow(2.0 * n_layer, 0.25); }
double deepnorm_beta(int n_layer) { return std::pow(8.0 * n_layer, -0.25); }

const InitRow kFlat = {Base::normal, .02f, .02f, false, one};
const InitRow kGpt2 = {Base::normal, .02f, .02f, true, one};
const InitRow kXavier = {Base::xavier, .02f, .02f, false, one};
const InitRow kDeepNet = {Base::xavier, .02f, .02f, false, deepnorm_beta};

}  // namespace

const std::vector<Placement>& placements() {
  static const std::vector<Placement> rows = {
      // name, aliases, source                                           in     out    sum    final  skip
      {"post", {"post-ln", "postln"}, "Vaswani et al. 2017, arXiv 1706.03762; GPT-1",
       false, false, true, false, one, kFlat},
      {"pre", {"pre-ln", "preln"}, "GPT-2 (Radford et al. 2019); Llama",
       true, false, false, true, one, kGpt2},
      {"sandwich", {"sandwich-ln", "peri", "peri-ln"}, "CogView (Ding et al. 2021, arXiv 2105.13290); Gemma-2",
       true, true, false, true, one, kFlat},
      {"deepnorm", {"deepnet"}, "DeepNet (Wang et al. 2022, arXiv 2203.00555), decoder-only",
       false, false, true, false, deepnorm_alpha, kDeepNet},
      {"reordered", {"olmo2", "res-post-norm"}, "OLMo 2 (2024, arXiv 2501.00656); Swin v2",
       false, true, false, true, one, kFlat},
      {"none", {"no-norm"}, "no normalization at all",
       false, false, false, false, one, kGpt2},
  };
  return rows;
}

const Placement& placement_row(std::string_view name) {
  std::vector<std::string> known;
  for (const Placement& row : placements()) {
    if (name == row.name) return row;
    known.emplace_back(row.name);
    for (const char* alias : row.aliases) {
      if (name == alias) return row;
      known.emplace_back(alias);
    }
  }
  throw std::invalid_argument(unknown_name("placement", name, known));
}

// ---- initialisation --------------------------------------------------------------------------------------

namespace {

const InitRow& init_row(const Config& config) {
  switch (config.init) {
    case InitChoice::gpt2: return kGpt2;
    case InitChoice::xavier: return kXavier;
    case InitChoice::placement: break;
  }
  return placement_row(config.placement).init;
}

}  // namespace

Start weight_start(const Config& config, Role role, int out, int in) {
  const InitRow& row = init_row(config);
  if (role == Role::embedding) return {0, row.embedding_std};
  double deviation = row.base == Base::xavier ? std::sqrt(2.0 / (double(in) + out)) : row.std;
  if (role != Role::qk) deviation *= *config.init_gain;
  if (*config.residual_gain && (role == Role::o || role == Role::ffn_out))
    deviation /= std::sqrt(2.0 * config.n_layer);
  return {0, static_cast<float>(deviation)};
}

// ---- checking --------------------------------------------------------------------------------------------

namespace {

std::string number(double x) {
  std::string s = std::to_string(x);
  s.erase(s.find_last_not_of('0') + 1);
  if (s.back() == '.') s.pop_back();
  return s;
}

void require(bool ok, const std::string& message) {
  if (!ok) throw std::invalid_argument(message);
}

void in_range(const char* option, double value, double low, double high) {
  require(value >= low && value <= high, std::string("--") + option + " is " + number(value) + ": must be " +
                                             number(low) + " to " + number(high));  // NaN fails both
}

}  // namespace

Config resolve(Config c) {
  const Placement& placement = placement_row(c.placement);
  c.placement = placement.name;

  in_range("layers", c.n_layer, 1, 10000);
  in_range("heads", c.n_head, 1, 4096);
  in_range("channels", c.channels, 1, 1 << 20);
  in_range("context", c.context, 1, 1 << 22);
  in_range("vocab-size", c.vocab_size, 1, 1 << 24);
  in_range("head-dim", c.head_dim, 0, 1 << 14);
  in_range("hidden", c.hidden, 0, 1 << 22);
  in_range("norm-eps", c.norm_eps, 0, 1);
  in_range("dropout", c.dropout, 0, .99);
  in_range("rope-theta", c.rope_theta, 1, 1e12);

  if (c.kv_heads == 0) c.kv_heads = c.n_head;
  require(c.kv_heads > 0 && c.n_head % c.kv_heads == 0,
          "--kv-heads " + std::to_string(c.kv_heads) + " does not divide --heads " + std::to_string(c.n_head) +
              ": each key/value head serves an equal number of query heads");
  if (c.head_dim == 0) {
    require(c.channels % c.n_head == 0, "--heads " + std::to_string(c.n_head) + " does not divide --channels " +
                                            std::to_string(c.channels) +
                                            ": choose heads that do, or set --head-dim");
    c.head_dim = c.channels / c.n_head;
  }
  require(c.position != Position::rope || c.head_dim % 2 == 0,
          "--position rope rotates pairs and needs an even head dimension, not " + std::to_string(c.head_dim));
  if (c.hidden == 0) c.hidden = c.gated() ? (8 * c.channels / 3 + 31) / 32 * 32 : 4 * c.channels;

  if (!c.norm_bias) c.norm_bias = c.norm == NormKind::layernorm && c.bias;
  if (!c.final_norm) c.final_norm = placement.final_norm;
  const InitRow& row = init_row(c);
  if (!c.residual_gain) c.residual_gain = row.residual_gain;
  if (!c.init_gain) c.init_gain = row.gain(c.n_layer);
  if (!c.skip_scale) c.skip_scale = placement.skip(c.n_layer);
  in_range("init-gain", *c.init_gain, 0, 1e3);
  in_range("skip-scale", *c.skip_scale, 0, 1e3);
  return c;
}

// ---- names -----------------------------------------------------------------------------------------------

namespace {

// Levenshtein (1966): the fewest insertions, deletions and replacements between two words.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string unknown_name(std::string_view what, std::string_view given, const std::vector<std::string>& known) {
  std::string message = "unknown " + std::string(what) + " '" + std::string(given) + "'";
  const auto nearest = std::min_element(known.begin(), known.end(), [&](const auto& a, const auto& b) {
    return edit_distance(given, a) < edit_distance(given, b);
  });
  if (nearest == known.end()) return message;
  message += ": did you mean '" + *nearest + "'? (one of";
  for (const auto& name : known) message += " " + name;
  return message + ")";
}
