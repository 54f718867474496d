#include "norm.hpp"

#include <cmath>
#include <iterator>

#include "layernorm.hpp"
#include "layers/config/norm_sites.hpp"
#include "layers/config/placements.hpp"
#include "norm_batch.hpp"
#include "norm_gated.hpp"
#include "norm_pointwise.hpp"
#include "norm_scale.hpp"

// ---- what each kind declares -------------------------------------------------------------------------------

namespace {

void declare_channels(Norm& p, Layout& layout, const Config& config, const std::string& name, int C) {
  p.unit_offset = config.norm_unit_offset;
  p.gainless = !config.norm_gain;
  if (!p.gainless)
    p.gain = layout.take(name + ".gain", Role::norm_gain, {C}, {config.norm_gain_init - (p.unit_offset ? 1 : 0), 0});
  if (*config.norm_bias) p.bias = layout.take(name + ".bias", Role::norm, {C});
}

void declare_scalenorm(Norm& p, Layout& layout, const Config& config, const std::string& name, int C) {
  const float start = config.norm_gain_init * std::sqrt(static_cast<float>(C));
  p.gain = layout.take(name + ".gain", Role::norm_gain, {1}, {start, 0});
}

void declare_batchnorm(Norm& p, Layout& layout, const Config& config, const std::string& name, int C) {
  declare_channels(p, layout, config, name, C);
  p.running_mean = layout.take_untrained(name + ".running_mean", Role::norm, {C}, 0);
  p.running_var = layout.take_untrained(name + ".running_var", Role::norm, {C}, 1);
}

void declare_dyt(Norm& p, Layout& layout, const Config& config, const std::string& name, int C) {
  declare_channels(p, layout, config, name, C);
  p.alpha = layout.take(name + ".alpha", Role::norm_scalar, {1}, {config.dyt_alpha, 0});
}

void declare_derf(Norm& p, Layout& layout, const Config& config, const std::string& name, int C) {
  declare_dyt(p, layout, config, name, C);
  p.shift = layout.take(name + ".shift", Role::norm_scalar, {1});
}

void declare_gatednorm(Norm& p, Layout& layout, const Config& config, const std::string& name, int C) {
  declare_channels(p, layout, config, name, C);
  p.rank = config.gated_norm_rank;
  const auto take = [&](const char* part, int out, int in, Growth growth) {
    const Start start = weight_start(config, Role::norm_gate, out, in, "", growth);
    return layout.take(name + part, Role::norm_gate, {out, in}, start);
  };
  p.down = take(".down", p.rank, C, Growth::in);
  p.up = take(".up", C, p.rank, Growth::out);
}

void save_nothing(NormSaved&, Layout&, const std::string&, int, int) {}

void save_rstd(NormSaved& saved, Layout& layout, const std::string& name, int N, int) {
  saved.rstd = layout.take(name + ".rstd", Role::norm, {N});
}

void save_mean_and_rstd(NormSaved& saved, Layout& layout, const std::string& name, int N, int C) {
  saved.mean = layout.take(name + ".mean", Role::norm, {N});
  save_rstd(saved, layout, name, N, C);
}

void save_statistics(NormSaved& saved, Layout& layout, const std::string& name, int, int C) {
  saved.mean = layout.take(name + ".mean", Role::norm, {C});
  saved.variance = layout.take(name + ".variance", Role::norm, {C});
}

// ---- the table ---------------------------------------------------------------------------------------------

constexpr NormRow kNorms[] = {
    {.kind = NormKind::layernorm, .source = "Ba et al. 2016, arXiv 1607.06450", .bias = true, .row_norm = true,
     .declare = declare_channels, .declare_saved = save_mean_and_rstd,
     .forward = row_norm_forward, .backward = row_norm_backward},
    {.kind = NormKind::rmsnorm, .source = "Zhang & Sennrich 2019, arXiv 1910.07467", .bias = false, .row_norm = true,
     .declare = declare_channels, .declare_saved = save_rstd,
     .forward = row_norm_forward, .backward = row_norm_backward},
    {.kind = NormKind::scalenorm, .source = "Nguyen & Salazar 2019, arXiv 1910.05895", .bias = false, .row_norm = false,
     .declare = declare_scalenorm, .declare_saved = save_rstd,
     .forward = scalenorm_forward, .backward = scalenorm_backward},
    {.kind = NormKind::batchnorm, .source = "Ioffe & Szegedy 2015, arXiv 1502.03167", .bias = true, .row_norm = false,
     .declare = declare_batchnorm, .declare_saved = save_statistics,
     .forward = batchnorm_forward, .backward = batchnorm_backward},
    {.kind = NormKind::dyt, .source = "Zhu et al. 2025, arXiv 2503.10622", .bias = true, .row_norm = false,
     .declare = declare_dyt, .declare_saved = save_nothing,
     .forward = pointwise_forward, .backward = pointwise_backward},
    {.kind = NormKind::derf, .source = "Chen et al. 2025, arXiv 2512.10938", .bias = true, .row_norm = false,
     .declare = declare_derf, .declare_saved = save_nothing,
     .forward = pointwise_forward, .backward = pointwise_backward},
    {.kind = NormKind::gatednorm, .source = "Qiu et al. 2026, arXiv 2601.22966", .bias = false, .row_norm = false,
     .declare = declare_gatednorm, .declare_saved = save_rstd,
     .forward = gatednorm_forward, .backward = gatednorm_backward},
};

constexpr bool in_order() {  // norm_row() and the option use a kind's number as an index
  for (size_t i = 0; i < std::size(kNorms); ++i)
    if (kNorms[i].kind != static_cast<NormKind>(i) || kNormKinds[i].value != kNorms[i].kind) return false;
  return true;
}
static_assert(std::size(kNorms) == std::size(kNormKinds) && in_order(), "a row for each NormKind, in their order");

}  // namespace

bool is_running(const TensorSpec& spec) { return spec.leaf().starts_with("running_"); }

const NormRow& norm_row(NormKind kind) { return kNorms[static_cast<size_t>(kind)]; }

Config at_norm(Config config, std::string_view norm) {
  if (is_key_norm(config, norm)) {
    config.norm = NormKind::rmsnorm;
    config.norm_bias = false;
    return config;
  }
  const std::optional<NormChoice> own = own_norm(config, norm);
  if (!own) return config;
  config.norm = own->kind;
  config.norm_gain = !own->plain;
  config.norm_unit_offset = config.norm_unit_offset && !own->plain;
  config.norm_bias = !own->plain && norm_row(own->kind).bias && config.bias;
  return config;
}

Norm declare_norm(Layout& layout, const Config& config, const std::string& name, int width) {
  Norm p{kind_at(config, name), config.norm_eps};
  norm_row(p.kind).declare(p, layout, at_norm(config, name), name, width);
  return p;
}

NormSaved declare_norm_saved(Layout& layout, const Config& config, const std::string& name, int N, int width) {
  NormSaved saved;
  norm_row(kind_at(config, name)).declare_saved(saved, layout, name, N, width);
  return saved;
}

const float* norm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C,
                          bool training) {
  if (!p.present()) return x;
  norm_row(p.kind).forward(y, saved, x, p, N, C, training);
  return y;
}

const float* norm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                           const Norm& p, int N, int C) {
  if (!p.present()) return dy;
  norm_row(p.kind).backward(dx, g, dy, x, saved, p, N, C);
  return dx;
}
