#include "placements.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

namespace {

double one(int) { return 1; }
// DeepNet, decoder-only (Wang et al. 2022, arXiv 2203.00555, table in fig. 2): α = (2L)^¼, β = (8L)^-¼.
double deepnorm_alpha(int n_layer) { return std::pow(2.0 * n_layer, 0.25); }
double deepnorm_beta(int n_layer) { return std::pow(8.0 * n_layer, -0.25); }

// GLM-130B (Zeng et al. 2022, arXiv 2210.02414): α = (2L)^½, β = (2L)^-½; ChatGLM-6B likewise (α = √56, L = 28).
double glm_alpha(int n_layer) { return std::pow(2.0 * n_layer, 0.5); }
double glm_beta(int n_layer) { return std::pow(2.0 * n_layer, -0.5); }
// Magneto, decoder-only (Wang et al. 2022, arXiv 2210.06423, fig. 2): γ = √(ln 2L).
double magneto_gamma(int n_layer) { return std::sqrt(std::log(2.0 * n_layer)); }
// Keel (Chen & Wei 2026, arXiv 2601.19895): α is the number of sublayers. The paper's text was out of reach; four
// independent accounts of it agree on this (a summary of the paper, and three programs).
double keel_alpha(int n_layer) { return 2.0 * n_layer; }
// B2T's rescaling_init (takase/b2t_connection, c8e2ad4): every matrix of a block by L^-½.
double b2t_gain(int n_layer) { return std::pow(n_layer, -0.5); }
// LayerNorm scaling (Sun et al. 2025, arXiv 2502.05795): 1/√l, the first block being l = 1.
double lns_scale(int layer) { return 1 / std::sqrt(layer + 1.0); }

const InitRow kFlat = {Base::normal, .02f, .02f, false, one};
const InitRow kGpt2 = {Base::normal, .02f, .02f, true, one};
const InitRow kXavier = {Base::xavier, .02f, .02f, false, one};
const InitRow kDeepNet = {Base::xavier, .02f, .02f, false, deepnorm_beta};
const InitRow kGlm = {Base::xavier, .02f, .02f, false, glm_beta};
// HybridNorm's "full_megatron"; its standard deviation .01398 is √(2/(5C)) at C = 2048.
const InitRow kSmall = {Base::small, 0, .02f, true, one};
const InitRow kB2t = {Base::xavier, .02f, .02f, false, b2t_gain, true};
const InitRow kMagneto = {Base::xavier, .02f, .02f, false, magneto_gamma};

}  // namespace

const std::vector<Placement>& placements() {
  constexpr auto no_gain = LearnedGain::none;
  static const std::vector<Placement> rows = {
      // name, aliases, source; norms in, inner, out, sum and final; gain, skip, in_scale, init, early, streams,
      // early_blocks, ffn, qk_norm, head_scale, bypass
      {"post", {"post-ln", "postln"}, "Vaswani et al. 2017, arXiv 1706.03762; GPT-1",
       false, false, false, true, false, no_gain, one, one, kFlat, nullptr},
      {"pre", {"pre-ln", "preln"}, "GPT-2 (Radford et al. 2019); Llama",
       true, false, false, false, true, no_gain, one, one, kGpt2, nullptr},
      {"sandwich", {"sandwich-ln", "peri", "peri-ln"}, "CogView (Ding et al. 2021, arXiv 2105.13290); Gemma-2",
       true, false, true, false, true, no_gain, one, one, kFlat, nullptr},
      {"deepnorm", {"deepnet"}, "DeepNet (Wang et al. 2022, arXiv 2203.00555), decoder-only",
       false, false, false, true, false, no_gain, deepnorm_alpha, one, kDeepNet, nullptr},
      {"reordered", {"olmo2", "res-post-norm"}, "OLMo 2 (2024, arXiv 2501.00656); Swin v2",
       false, false, true, false, true, no_gain, one, one, kFlat, nullptr},
      {"none", {"no-norm"}, "no normalization at all",
       false, false, false, false, false, no_gain, one, one, kGpt2, nullptr},
      {"glm-deepnorm", {"glm"}, "GLM-130B (Zeng et al. 2022, arXiv 2210.02414); ChatGLM-6B",
       false, false, false, true, false, no_gain, glm_alpha, one, kGlm, nullptr},
      {"pre-post", {"pre-and-post"}, "the form of Keel (Chen & Wei 2026, arXiv 2601.19895), at skip 1",
       true, false, false, true, false, no_gain, one, one, kFlat, nullptr},
      // The programs that implement Keel treat the first block differently (skip 1, and no norm_sum behind its
      // attention), but not in the same way. Here it is like the others.
      {"keel", {}, "Keel (Chen & Wei 2026, arXiv 2601.19895)",
       true, false, false, true, false, no_gain, keel_alpha, one, kFlat, nullptr},
      // The authors' block is y = x + attention(x), z = norm(y), z + ffn(z): the norm of the feed-forward branch comes
      // before its skip path, which is the same as behind attention's sum.
      {"hybridnorm", {"hybrid-norm"}, "HybridNorm (Zhuo et al. 2025, arXiv 2503.04598)",
       false, false, false, true, true, no_gain, one, one, kSmall, nullptr, StreamRule::single, 0, "none",
       QkNormKind::qkv},
      {"hybridnorm-star", {"hybridnorm*"}, "HybridNorm* (Zhuo et al. 2025, arXiv 2503.04598)",
       false, false, false, true, true, no_gain, one, one, kSmall, "pre", StreamRule::single, 1, "none",
       QkNormKind::qkv},
      {"mix-ln", {"mixln"}, "Mix-LN (Li et al. 2024, arXiv 2412.13795): Post-LN first, then Pre-LN",
       true, false, false, false, true, no_gain, one, one, kFlat, "post"},
      {"lns", {"layernorm-scaling"}, "LayerNorm scaling (Sun et al. 2025, arXiv 2502.05795)",
       true, false, false, false, true, no_gain, one, lns_scale, kFlat, nullptr},
      {"sub-ln", {"subln", "magneto"}, "Magneto (Wang et al. 2022, arXiv 2210.06423), decoder-only",
       true, true, false, false, true, no_gain, one, one, kMagneto, nullptr},
      // CaiT draws all its matrices from a (truncated) normal of .02.
      {"layerscale", {"cait"}, "LayerScale (CaiT, Touvron et al. 2021, arXiv 2103.17239)",
       true, false, false, false, true, LearnedGain::channel, one, one, kFlat, nullptr},
      // One scalar for both branches of a block, as in the authors' code, whose blocks are made for PyTorch's
      // nn.Transformer: that draws every matrix by Xavier's rule.
      {"rezero", {"re-zero"}, "ReZero (Bachlechner et al. 2020, arXiv 2003.04887)",
       false, false, false, false, false, LearnedGain::block, one, one, kXavier, nullptr},
      {"hyper", {"hyper-connections", "dhc"}, "dynamic hyper-connections (Zhu et al. 2024, arXiv 2409.19606)",
       true, false, false, false, true, no_gain, one, one, kGpt2, nullptr, StreamRule::hyper},
      {"hyper-static", {"shc"}, "static hyper-connections (Zhu et al. 2024, arXiv 2409.19606)",
       true, false, false, false, true, no_gain, one, one, kGpt2, nullptr, StreamRule::hyper_static},
      {"mhc", {}, "manifold-constrained hyper-connections (Xie et al. 2025, arXiv 2512.24880)",
       true, false, false, false, true, no_gain, one, one, kGpt2, nullptr, StreamRule::mhc},
      // The authors start from fairseq's weights, and here from those of post. The eps of their final norm is 1e-7.
      {"resi-dual", {"residual-dual"}, "ResiDual (Xie et al. 2023, arXiv 2304.14802)",
       false, false, false, true, true, no_gain, one, one, kFlat, nullptr, StreamRule::dual},
      // Before their factor the authors' matrices are fairseq's: Xavier's, by 1/√2 in q, k and v, and PyTorch's own in
      // the feed-forward layer. Here all are Xavier's.
      {"b2t", {"bottom-to-top"}, "B2T connection (Takase et al. 2022, arXiv 2206.00330)",
       false, false, false, true, false, no_gain, one, one, kB2t, nullptr, StreamRule::single, 0, nullptr,
       QkNormKind::none, false, true},
      // The feed-forward branch has its second norm before down, and is that of sub-ln. The optional learned gain on
      // its skip path (fairseq's scale_resids) is left out.
      {"normformer", {}, "NormFormer (Shleifer et al. 2021, arXiv 2110.09456)",
       true, false, true, false, true, no_gain, one, one, kFlat, nullptr, StreamRule::single, 0, "sub-ln",
       QkNormKind::none, true},
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

const Placement& placement_at(const Config& config, int layer, std::string_view branch) {
  const Placement& row = placement_row(config.placement);
  const double share = std::floor(config.mix_fraction * config.n_layer + 1e-9);  // .29 · 100 is 29, not 28.99...
  if (row.early && layer < (row.early_blocks > 0 ? row.early_blocks : share)) return placement_row(row.early);
  return row.ffn && branch == "ffn" ? placement_row(row.ffn) : row;
}

const InitRow& init_row(const Config& config) {
  switch (config.init) {
    case InitChoice::gpt2: return kGpt2;
    case InitChoice::xavier: return kXavier;
    case InitChoice::placement: break;
  }
  return placement_row(config.placement).init;
}

Start weight_start(const Config& config, Role role, int out, int in) {
  const InitRow& row = init_row(config);
  const bool output = role == Role::o || role == Role::ffn_out;
  if (role == Role::embedding) return {0, row.embedding_std};
  if (config.zero_init && output) return {0, 0};
  double deviation = row.std;
  if (row.base == Base::xavier) deviation = std::sqrt(2.0 / (double(in) + out));
  if (row.base == Base::small) deviation = std::sqrt(2.0 / (5.0 * config.channels));
  if (role != Role::router && (role != Role::qk || row.qk_gain)) deviation *= *config.init_gain;
  if (*config.residual_gain && output) deviation /= std::sqrt(2.0 * config.n_layer);
  return {0, static_cast<float>(deviation)};
}

bool has_bias(const Config& config, Role role) {
  if (role == Role::router) return false;
  return role == Role::qk || role == Role::v ? *config.qkv_bias : config.bias;
}
