#include "norm.hpp"

#include <cmath>
#include <iterator>
#include <vector>

#include "layers/linear/linear.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

// ---- LayerNorm and RMSNorm ---------------------------------------------------------------------------------

namespace {

// What the normalized number is multiplied by. Without an offset that is a plain load.
template <bool unit_offset>
Vec gain_at(const Norm& p, int i, int lanes) {
  const Vec w = load(p.gain + i, lanes);
  return unit_offset ? 1.f + w : w;
}

float row_mean(const float* x, int C) {
  Vec sum = {};
  sweep(C, [&](int i, int lanes) { sum += load(x + i, lanes); });
  return static_cast<float>(simd::sum(sum) / C);
}

// mean((x − mean)²)
double row_variance(const float* x, float mean, int C) {
  Vec sum = {};
  sweep(C, [&](int i, int lanes) {
    const Vec d = load(x + i, lanes, mean) - mean;
    sum += d * d;
  });
  return simd::sum(sum) / C;
}

template <bool unit_offset>
void rows_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C) {
  const bool centred = p.kind == NormKind::layernorm;
  parallel_for(N, 1, 4 * static_cast<size_t>(C), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      const float* in = x + static_cast<size_t>(n) * C;
      float* out = y + static_cast<size_t>(n) * C;
      const float mean = centred ? row_mean(in, C) : 0;
      const float rstd = static_cast<float>(1 / std::sqrt(row_variance(in, mean, C) + p.eps));
      sweep(C, [&](int i, int lanes) {
        Vec v = (load(in + i, lanes) - mean) * rstd * gain_at<unit_offset>(p, i, lanes);
        if (p.bias) v += load(p.bias + i, lanes);
        store(out + i, v, lanes);
      });
      if (centred) saved.mean[n] = mean;
      saved.rstd[n] = rstd;
    }
  });
}

// Gradients of the parameters, summed over the rows of one block.
struct Sums {
  float *gain, *bias;  // (C) each
};

// dx of one row, and its share of dgain and dbias.
template <bool unit_offset>
void backward_row(float* dx, const Sums& sums, const float* dy, const float* x, float mean, float rstd, const Norm& p,
                  int C) {
  const bool centred = p.kind == NormKind::layernorm;
  const auto dxhat = [&](int i, int lanes) { return load(dy + i, lanes) * gain_at<unit_offset>(p, i, lanes); };
  const auto xhat = [&](int i, int lanes) { return (load(x + i, lanes, mean) - mean) * rstd; };
  Vec sum = {}, dot = {};
  sweep(C, [&](int i, int lanes) {
    const Vec d = dxhat(i, lanes);
    sum += d;
    dot += d * xhat(i, lanes);
  });
  const float mean_dxhat = centred ? static_cast<float>(simd::sum(sum) / C) : 0;
  const float mean_dot = static_cast<float>(simd::sum(dot) / C);
  sweep(C, [&](int i, int lanes) {
    const Vec d = load(dy + i, lanes), h = xhat(i, lanes);
    store(sums.gain + i, load(sums.gain + i, lanes) + d * h, lanes);               // y = gain·x̂ + bias
    if (p.bias) store(sums.bias + i, load(sums.bias + i, lanes) + d, lanes);        // y = gain·x̂ + bias
    store(dx + i, rstd * (d * gain_at<unit_offset>(p, i, lanes) - mean_dxhat - h * mean_dot), lanes);
  });
}

// Rows go by blocks (linear.hpp), each with sums of its own that are added at the end: one sweep over memory for dx, dgain
// and dbias together.
template <bool unit_offset>
void rows_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved, const Norm& p,
                   int N, int C) {
  const int blocks = row_blocks(N);
  const size_t half = static_cast<size_t>(blocks) * C;
  thread_local std::vector<float> sums;  // dgain (blocks,C), dbias (blocks,C)
  sums.assign(2 * half, 0.f);
  float* const first = sums.data();
  parallel_for(N, kRowBlock, 10 * static_cast<size_t>(C), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      const size_t row = static_cast<size_t>(n) * C;
      float* gain = first + static_cast<size_t>(n / kRowBlock) * C;
      backward_row<unit_offset>(dx + row, {gain, gain + half}, dy + row, x + row, saved.mean ? saved.mean[n] : 0,
                                saved.rstd[n], p, C);
    }
  });
  add_column_sums(g.gain, first, blocks, C);
  if (g.bias) add_column_sums(g.bias, first + half, blocks, C);
}

void row_norm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool) {
  p.unit_offset ? rows_forward<true>(y, saved, x, p, N, C) : rows_forward<false>(y, saved, x, p, N, C);
}

void row_norm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                       const Norm& p, int N, int C) {
  p.unit_offset ? rows_backward<true>(dx, g, dy, x, saved, p, N, C)
                : rows_backward<false>(dx, g, dy, x, saved, p, N, C);
}

// ---- what each kind declares -------------------------------------------------------------------------------

void declare_channels(Norm& p, Layout& layout, const Config& config, const std::string& name, int C) {
  p.unit_offset = config.norm_unit_offset;
  p.gain = layout.take(name + ".gain", {C}, {p.unit_offset ? 0.f : 1.f, 0});
  if (*config.norm_bias) p.bias = layout.take(name + ".bias", {C});
}

void declare_scalenorm(Norm& p, Layout& layout, const Config&, const std::string& name, int C) {
  p.gain = layout.take(name + ".gain", {1}, {std::sqrt(static_cast<float>(C)), 0});
}

void declare_batchnorm(Norm& p, Layout& layout, const Config& config, const std::string& name, int C) {
  declare_channels(p, layout, config, name, C);
  p.running_mean = layout.take_untrained(name + ".running_mean", {C}, 0);
  p.running_var = layout.take_untrained(name + ".running_var", {C}, 1);
}

void declare_dyt(Norm& p, Layout& layout, const Config& config, const std::string& name, int C) {
  declare_channels(p, layout, config, name, C);
  p.alpha = layout.take(name + ".alpha", {1}, {config.dyt_alpha, 0});
}

void declare_derf(Norm& p, Layout& layout, const Config& config, const std::string& name, int C) {
  declare_dyt(p, layout, config, name, C);
  p.shift = layout.take(name + ".shift", {1});
}

void save_nothing(NormSaved&, Layout&, const std::string&, int, int) {}

void save_rstd(NormSaved& saved, Layout& layout, const std::string& name, int N, int) {
  saved.rstd = layout.take(name + ".rstd", {N});
}

void save_mean_and_rstd(NormSaved& saved, Layout& layout, const std::string& name, int N, int C) {
  saved.mean = layout.take(name + ".mean", {N});
  save_rstd(saved, layout, name, N, C);
}

void save_statistics(NormSaved& saved, Layout& layout, const std::string& name, int, int C) {
  saved.mean = layout.take(name + ".mean", {C});
  saved.variance = layout.take(name + ".variance", {C});
}

// ---- the table ---------------------------------------------------------------------------------------------

constexpr NormRow kNorms[] = {
    // kind, source                                              bias  row norm
    {NormKind::layernorm, "Ba et al. 2016, arXiv 1607.06450",
     true, true, declare_channels, save_mean_and_rstd, row_norm_forward, row_norm_backward},
    {NormKind::rmsnorm, "Zhang & Sennrich 2019, arXiv 1910.07467",
     false, true, declare_channels, save_rstd, row_norm_forward, row_norm_backward},
    {NormKind::scalenorm, "Nguyen & Salazar 2019, arXiv 1910.05895",
     false, false, declare_scalenorm, save_rstd, scalenorm_forward, scalenorm_backward},
    {NormKind::batchnorm, "Ioffe & Szegedy 2015, arXiv 1502.03167",
     true, false, declare_batchnorm, save_statistics, batchnorm_forward, batchnorm_backward},
    {NormKind::dyt, "Zhu et al. 2025, arXiv 2503.10622",
     true, false, declare_dyt, save_nothing, pointwise_forward, pointwise_backward},
    {NormKind::derf, "Chen et al. 2025, arXiv 2512.10938",
     true, false, declare_derf, save_nothing, pointwise_forward, pointwise_backward},
};

constexpr bool in_order() {  // norm_row() and the option look a kind up by its number
  for (size_t i = 0; i < std::size(kNorms); ++i)
    if (kNorms[i].kind != static_cast<NormKind>(i) || kNormKinds[i].value != kNorms[i].kind) return false;
  return true;
}
static_assert(std::size(kNorms) == std::size(kNormKinds) && in_order(), "a row for each NormKind, in their order");

}  // namespace

const NormRow& norm_row(NormKind kind) { return kNorms[static_cast<size_t>(kind)]; }

Norm declare_norm(Layout& layout, const Config& config, const std::string& name, int width) {
  Norm p{config.norm, config.norm_eps};
  norm_row(p.kind).declare(p, layout, config, name, width);
  return p;
}

NormSaved declare_norm_saved(Layout& layout, const Config& config, const std::string& name, int N, int width) {
  NormSaved saved;
  norm_row(config.norm).declare_saved(saved, layout, name, N, width);
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
