#include "placements.hpp"

#include <cmath>
#include <stdexcept>
#include <string>

#include "base_model.hpp"

namespace {

// DeepNet (Wang et al. 2022, arXiv 2203.00555, table in fig. 2). One stack of L blocks: α = (2L)^¼, β = (8L)^-¼.
// An encoder of N blocks: α = .81·(N⁴M)^(1/16), β = .87·(N⁴M)^(-1/16), for a decoder of M: α = (3M)^¼, β = (12M)^-¼.
double deepnorm_alpha(const Depth& d) {
  if (d.stack == StackKind::encoder) return .81 * std::pow(std::pow(d.own, 4) * d.other, 1. / 16);
  return std::pow((d.stack == StackKind::decoder ? 3. : 2.) * d.own, .25);
}
double deepnorm_beta(const Depth& d) {
  if (d.stack == StackKind::encoder) return .87 * std::pow(std::pow(d.own, 4) * d.other, -1. / 16);
  return std::pow((d.stack == StackKind::decoder ? 12. : 8.) * d.own, -.25);
}

// GLM-130B (Zeng et al. 2022, arXiv 2210.02414): α = (2L)^½, β = (2L)^-½; ChatGLM-6B likewise (α = √56, L = 28).
double glm_alpha(const Depth& d) { return std::pow(2. * d.own, .5); }
double glm_beta(const Depth& d) { return std::pow(2. * d.own, -.5); }
// Magneto (Wang et al. 2022, arXiv 2210.06423, fig. 2). One stack of L blocks: γ = √(ln 2L). An encoder of N blocks:
// γ = √(⅓·ln 3M·ln 2N), for a decoder of M: γ = √(ln 3M).
double magneto_gamma(const Depth& d) {
  if (d.stack == StackKind::encoder) return std::sqrt(std::log(3. * d.other) * std::log(2. * d.own) / 3);
  return std::sqrt(std::log((d.stack == StackKind::decoder ? 3. : 2.) * d.own));
}
// Keel (Chen & Wei 2026, arXiv 2601.19895): α is the number of sublayers. The paper's text was out of reach; four
// independent accounts of it agree on this (a summary of the paper, and three programs).
double keel_alpha(const Depth& d) { return 2. * d.own; }
// B2T's rescaling_init (takase/b2t_connection, c8e2ad4): every matrix of a block times L^-½.
double b2t_gain(const Depth& d) { return std::pow(d.own, -.5); }
// LayerNorm scaling (Sun et al. 2025, arXiv 2502.05795): 1/√l, the first block being l = 1.
double lns_scale(int layer) { return 1 / std::sqrt(layer + 1.0); }
// SiameseNorm (the three files of Qwen-Applications/SiameseNorm, 70efa00): 1/√(2l), the first block being l = 1.
double siamese_write(int layer) { return 1 / std::sqrt(2 * (layer + 1.0)); }

const InitRow kFlat = {};
const InitRow kGpt2 = {.residual_gain = true};
const InitRow kXavier = {.base = Base::xavier};
const InitRow kDeepNet = {.base = Base::xavier, .gain = deepnorm_beta};
const InitRow kGlm = {.base = Base::xavier, .gain = glm_beta};
// HybridNorm's "full_megatron"; its standard deviation .01398 is √(2/(5C)) at C = 2048.
const InitRow kSmall = {.base = Base::small, .residual_gain = true};
const InitRow kB2t = {.base = Base::xavier, .gain = b2t_gain, .qk_gain = true};
// The authors' code (microsoft/torchscale) leaves cross attention out of both the gain and the inner norm.
const InitRow kMagneto = {.base = Base::xavier, .gain = magneto_gamma, .cross_gain = false};

}  // namespace

const std::vector<Placement>& placements() {
  // Rows that others refer to.
  static const Placement post = {
      .name = "post", .aliases = {"post-ln", "postln"}, .source = "Vaswani et al. 2017, arXiv 1706.03762; GPT-1",
      .norm_sum = true, .init = kFlat, .depth = DepthRule::sphere};
  static const Placement pre = {
      .name = "pre", .aliases = {"pre-ln", "preln"}, .source = "GPT-2 (Radford et al. 2019); Llama",
      .norm_in = true, .final_norm = true, .init = kGpt2, .depth = DepthRule::sum};
  static const Placement none = {
      .name = "none", .aliases = {"no-norm"}, .source = "no normalization at all", .init = kGpt2,
      .depth = DepthRule::sum};
  static const Placement sub_ln = {
      .name = "sub-ln", .aliases = {"subln", "magneto"},
      .source = "Magneto (Wang et al. 2022, arXiv 2210.06423)",
      .norm_in = true, .norm_inner = true, .final_norm = true, .init = kMagneto, .cross = &pre,
      .depth = DepthRule::sum};
  static const std::vector<Placement> rows = {
      post, pre,
      {.name = "sandwich", .aliases = {"sandwich-ln", "peri", "peri-ln"},
       .source = "CogView (Ding et al. 2021, arXiv 2105.13290); Gemma-2",
       .norm_in = true, .norm_out = true, .final_norm = true, .init = kFlat, .depth = DepthRule::sum},
      {.name = "deepnorm", .aliases = {"deepnet"},
       .source = "DeepNet (Wang et al. 2022, arXiv 2203.00555)",
       .norm_sum = true, .skip = deepnorm_alpha, .init = kDeepNet, .depth = DepthRule::sphere},
      {.name = "reordered", .aliases = {"olmo2", "res-post-norm"}, .source = "OLMo 2 (2024, arXiv 2501.00656); Swin v2",
       .norm_out = true, .final_norm = true, .init = kFlat, .depth = DepthRule::sum},
      none,
      {.name = "glm-deepnorm", .aliases = {"glm"},
       .source = "GLM-130B (Zeng et al. 2022, arXiv 2210.02414); ChatGLM-6B",
       .norm_sum = true, .skip = glm_alpha, .init = kGlm, .one_stack = true, .depth = DepthRule::sphere},
      {.name = "pre-post", .aliases = {"pre-and-post"},
       .source = "the form of Keel (Chen & Wei 2026, arXiv 2601.19895), at skip 1",
       .norm_in = true, .norm_sum = true, .init = kFlat, .depth = DepthRule::sphere},
      // The programs that implement Keel treat the first block differently (skip 1, and no norm_sum after its
      // attention), but not in the same way. Here it is like the others.
      {.name = "keel", .source = "Keel (Chen & Wei 2026, arXiv 2601.19895), whose first block may differ",
       .norm_in = true, .norm_sum = true, .skip = keel_alpha, .init = kFlat, .one_stack = true,
       .depth = DepthRule::sphere},
      // The authors' block is y = x + attention(x), z = norm(y), z + ffn(z): the feed-forward branch's norm comes
      // before its skip path, which is the same as a norm after attention's sum.
      {.name = "hybridnorm", .aliases = {"hybrid-norm"}, .source = "HybridNorm (Zhuo et al. 2025, arXiv 2503.04598)",
       .norm_sum = true, .final_norm = true, .init = kSmall, .ffn = &none, .qk_norm = QkNormKind::qkv,
       .depth = DepthRule::sphere},
      {.name = "hybridnorm-star", .aliases = {"hybridnorm*"},
       .source = "HybridNorm* (Zhuo et al. 2025, arXiv 2503.04598)",
       .norm_sum = true, .final_norm = true, .init = kSmall, .early = &pre, .early_blocks = 1, .ffn = &none,
       .qk_norm = QkNormKind::qkv, .depth = DepthRule::sphere},
      {.name = "mix-ln", .aliases = {"mixln"},
       .source = "Mix-LN (Li et al. 2024, arXiv 2412.13795): Post-LN first, then Pre-LN",
       .norm_in = true, .final_norm = true, .init = kFlat, .early = &post, .depth = DepthRule::sum},
      {.name = "lns", .aliases = {"layernorm-scaling"},
       .source = "LayerNorm scaling (Sun et al. 2025, arXiv 2502.05795)",
       .norm_in = true, .final_norm = true, .in_scale = lns_scale, .init = kFlat, .depth = DepthRule::sum},
      sub_ln,
      // CaiT draws all its matrices from a (truncated) normal of .02.
      {.name = "layerscale", .aliases = {"cait"}, .source = "LayerScale (CaiT, Touvron et al. 2021, arXiv 2103.17239)",
       .norm_in = true, .final_norm = true, .gain = LearnedGain::channel, .init = kFlat, .depth = DepthRule::sum},
      // One scalar for both branches of a block, as in the authors' code. Their blocks are made for PyTorch's
      // nn.Transformer, which draws every matrix by Xavier's rule.
      {.name = "rezero", .aliases = {"re-zero"}, .source = "ReZero (Bachlechner et al. 2020, arXiv 2003.04887)",
       .gain = LearnedGain::block, .init = kXavier, .depth = DepthRule::sum},
      {.name = "hyper", .aliases = {"hyper-connections", "dhc"},
       .source = "dynamic hyper-connections (Zhu et al. 2024, arXiv 2409.19606)",
       .norm_in = true, .final_norm = true, .init = kGpt2, .streams = StreamRule::hyper},
      {.name = "hyper-static", .aliases = {"shc"},
       .source = "static hyper-connections (Zhu et al. 2024, arXiv 2409.19606)",
       .norm_in = true, .final_norm = true, .init = kGpt2, .streams = StreamRule::hyper_static},
      {.name = "mhc", .source = "manifold-constrained hyper-connections (Xie et al. 2025, arXiv 2512.24880)",
       .norm_in = true, .final_norm = true, .init = kGpt2, .streams = StreamRule::mhc},
      // The classes of DeepSeek V4 and GLM-5.3 draw all matrices from a normal of .02, those of HY V4 of .006. Here all
      // have .02.
      {.name = "mhc-read", .aliases = {"deepseek-v4"},
       .source = "DeepSeek V4 (classes DeepseekV4HyperConnection and DeepseekV4HyperHead of transformers 5.24)",
       .norm_in = true, .final_norm = true, .init = kFlat, .streams = StreamRule::mhc, .stream_end = StreamEnd::read,
       .stream_scale = 1},
      {.name = "mhc-mean", .aliases = {"glm-5"},
       .source = "GLM-5.3 (classes Glm5NextTextHyperConnection and Glm5NextTextHyperHead of transformers 5.24)",
       .norm_in = true, .final_norm = true, .init = kFlat, .streams = StreamRule::mhc, .stream_end = StreamEnd::mean,
       .stream_scale = 1},
      {.name = "hyper-independent", .aliases = {"independent", "hy-v4"},
       .source = "HY V4 (classes HYV4HyperConnection and HYV4HyperHead of transformers 5.24)",
       .norm_in = true, .final_norm = true, .init = kFlat, .streams = StreamRule::independent,
       .stream_end = StreamEnd::read, .mean_read = true},
      // The norms are those of the streams, in front of each branch and of the classifier.
      {.name = "gated-residual", .aliases = {"qwen4"},
       .source = "Qwen 4 (class Qwen4ExpTextGatedResidual of transformers 5.24)",
       .init = kFlat, .streams = StreamRule::gated, .stream_end = StreamEnd::read, .one_stack = true},
      // The authors start from fairseq's weights; here the weights start as in post. The eps of their final norm is
      // 1e-7.
      {.name = "resi-dual", .aliases = {"residual-dual"}, .source = "ResiDual (Xie et al. 2023, arXiv 2304.14802)",
       .norm_sum = true, .final_norm = true, .init = kFlat, .streams = StreamRule::dual, .depth = DepthRule::sphere},
      // The authors' block (their file for DeiT) begins with the norm of the first stream, which is norm_sum of the
      // branch before it here. Their file for OLMo is a hybrid: its attention has norms of q, k and v in place of
      // norm_in. Weights start as in their file for DeiT, but a normal is not truncated.
      {.name = "siamese", .aliases = {"siamesenorm", "siamese-norm"},
       .source = "SiameseNorm (Li et al. 2026, arXiv 2602.08064)",
       .norm_in = true, .norm_sum = true, .final_norm = true, .first_write = siamese_write, .init = kFlat,
       .streams = StreamRule::siamese, .one_stack = true, .depth = DepthRule::sphere},
      // The authors draw all matrices from N(0, 1/C). With --normed-weights, which they have, too, the deviation does
      // not matter.
      {.name = "ngpt", .aliases = {"normalized-transformer"},
       .source = "nGPT (Loshchilov et al. 2024, arXiv 2410.01131)",
       .init = kFlat, .streams = StreamRule::sphere, .one_stack = true},
      // The authors' code is pseudocode, without initial weights. A second implementation (Kimi K3 in a fork of
      // torchtitan) draws all matrices from N(0, .02²), and so do we.
      {.name = "attnres", .aliases = {"attention-residuals"},
       .source = "attention residuals (Kimi Team 2026, arXiv 2603.15031)",
       .norm_in = true, .final_norm = true, .init = kFlat, .streams = StreamRule::attnres, .one_stack = true},
      // The class has no gain on the keys. Its layers with full attention have three queries, one each for q, k and v;
      // here every branch has one.
      {.name = "attnres-normed", .source = "Inkling-2 (class Inkling2BlockAttentionResidual of transformers 5.24)",
       .norm_in = true, .final_norm = true, .init = kFlat, .streams = StreamRule::attnres_normed, .one_stack = true},
      // Before their factor, the authors' matrices are fairseq's: Xavier's (times 1/√2 in q, k and v), and PyTorch's
      // default in the feed-forward layer. Here all are Xavier's.
      {.name = "b2t", .aliases = {"bottom-to-top"}, .source = "B2T connection (Takase et al. 2022, arXiv 2206.00330)",
       .norm_sum = true, .init = kB2t, .bypass = true, .depth = DepthRule::sphere},
      // The feed-forward branch is sub-ln's: its second norm comes before down. The optional learned gain on its skip
      // path (fairseq's scale_resids) is left out.
      {.name = "normformer", .source = "NormFormer (Shleifer et al. 2021, arXiv 2110.09456)",
       .norm_in = true, .norm_out = true, .final_norm = true, .init = kFlat, .ffn = &sub_ln, .head_scale = true,
       .depth = DepthRule::sum},
      // One gate for both branches of a block, as in the authors' code (dandingsky/GPAS, 3198068); their paper writes
      // one for each layer. They draw all matrices from a normal of .02.
      {.name = "gpas", .source = "GPAS (Chen et al. 2025, arXiv 2506.22049)",
       .norm_in = true, .final_norm = true, .init = kFlat, .gpas = true, .depth = DepthRule::sum},
      // The authors' matrices are fairseq's: Xavier's, times 1/√2 in q, k and v. Here all are Xavier's. Their embedding
      // has mean squares near 1, as with --embedding-scale or --embedding-norm here.
      {.name = "admin", .source = "Admin (Liu et al. 2020, arXiv 2004.08249)",
       .norm_sum = true, .init = kXavier, .skip_gain = true, .depth = DepthRule::sphere},
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

Depth depth_of(const Config& config) {
  if (config.crosses()) return {config.n_layer, config.encoder_layers, StackKind::decoder};
  if (config.decoder_layers > 0) return {config.n_layer, config.decoder_layers, StackKind::encoder};
  return {base_depth(config)};
}

const Placement& placement_at(const Config& config, int layer, std::string_view branch) {
  const Placement& row = *config.placement_row;
  const double share = std::floor(config.mix_fraction * base_depth(config) + 1e-9);  // .29 · 100 is 29, not 28.99...
  const int at = base_layer(config, layer);
  if (row.early && at < (row.early_blocks > 0 ? row.early_blocks : share)) return *row.early;
  if (row.cross && branch == "cross") return *row.cross;
  return row.ffn && branch == "ffn" ? *row.ffn : row;
}

const InitRow& init_row(const Config& config) {
  switch (config.init) {
    case InitChoice::gpt2: return kGpt2;
    case InitChoice::xavier: return kXavier;
    case InitChoice::placement: break;
  }
  return config.placement_row->init;
}

namespace {

// The sum of a matrix's sides in the base model.
double base_sides(const Config& config, int out, int in, Growth growth) {
  const Ratios ratios = ratios_of(config);
  const double of_out = growth == Growth::in_and_heads ? ratios.heads : growth == Growth::in ? 1 : ratios.width;
  return out / of_out + in / (growth == Growth::out ? 1 : ratios.width);
}

}  // namespace

Start weight_start(const Config& config, Role role, int out, int in, std::string_view branch, Growth growth) {
  const InitRow& row = init_row(config);
  const bool output = role == Role::o || role == Role::ffn_out;
  if (role == Role::embedding) return {0, row.embedding_std};
  if (config.zero_init && output) return {0, 0};
  double deviation = row.std;
  if (row.base == Base::xavier) deviation = std::sqrt(2 / base_sides(config, out, in, growth));
  if (row.base == Base::small) deviation = std::sqrt(2 / (5 * config.channels / ratios_of(config).width));
  const bool in_branch = role != Role::router && role != Role::projection && role != Role::transform &&
                         role != Role::norm_gate;
  const bool gains = (role != Role::qk || row.qk_gain) && (branch != "cross" || row.cross_gain);
  if (in_branch && gains) deviation *= *config.init_gain;
  if (*config.residual_gain && output) deviation /= std::sqrt(double(config.branches()) * depth_of(config).own);
  return {0, static_cast<float>(deviation)};
}

bool has_bias(const Config& config, Role role) {
  if (role == Role::router || role == Role::projection) return false;
  if (role == Role::o) return *config.o_bias;
  return role == Role::qk || role == Role::v ? *config.qkv_bias : config.bias;
}
