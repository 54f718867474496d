#include "layernorm.hpp"

#include <cmath>
#include <vector>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

// Returns a copy with gains 1 + w, or 1, valid until the next call. So the loops below are compiled once; in two
// instances the compiler might round the edges of a row differently.
Norm with_plain_gain(Norm p, int C) {
  if (!p.unit_offset && !p.gainless) return p;
  thread_local std::vector<float> gains;
  gains.assign(static_cast<size_t>(C), 1);
  for (int c = 0; c < C && !p.gainless; ++c) gains[c] += p.gain[c];
  p.gain = gains.data();
  return p;
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

// The parameters' gradients, summed over the rows of one block.
struct Sums {
  float *gain, *bias;  // (C) each
};

// Computes dx of one row, and adds its share of dgain and dbias.
void backward_row(float* dx, const Sums& sums, const float* dy, const float* x, float mean, float rstd, const Norm& p,
                  int C) {
  const bool centered = p.kind == NormKind::layernorm;
  const auto dxhat = [&](int i, int lanes) { return load(dy + i, lanes) * load(p.gain + i, lanes); };
  const auto xhat = [&](int i, int lanes) { return (load(x + i, lanes, mean) - mean) * rstd; };
  Vec sum = {}, dot = {};
  sweep(C, [&](int i, int lanes) {
    const Vec d = dxhat(i, lanes);
    sum += d;
    dot += d * xhat(i, lanes);
  });
  const float mean_dxhat = centered ? static_cast<float>(simd::sum(sum) / C) : 0;
  const float mean_dot = static_cast<float>(simd::sum(dot) / C);
  sweep(C, [&](int i, int lanes) {
    const Vec d = load(dy + i, lanes), h = xhat(i, lanes);
    store(sums.gain + i, load(sums.gain + i, lanes) + d * h, lanes);               // y = gain·x̂ + bias
    if (p.bias) store(sums.bias + i, load(sums.bias + i, lanes) + d, lanes);        // y = gain·x̂ + bias
    store(dx + i, rstd * (d * load(p.gain + i, lanes) - mean_dxhat - h * mean_dot), lanes);
  });
}

}  // namespace

void row_norm_forward(float* y, const NormSaved& saved, const float* x, const Norm& norm, int N, int C, bool) {
  const Norm p = with_plain_gain(norm, C);
  const bool centered = p.kind == NormKind::layernorm;
  parallel_each(N, 4 * static_cast<size_t>(C), [&](size_t n) {
    const float* in = x + n * C;
    float* out = y + n * C;
    const float mean = centered ? row_mean(in, C) : 0;
    const float rstd = static_cast<float>(1 / std::sqrt(row_variance(in, mean, C) + p.eps));
    sweep(C, [&](int i, int lanes) {
      Vec v = (load(in + i, lanes) - mean) * rstd * load(p.gain + i, lanes);
      if (p.bias) v += load(p.bias + i, lanes);
      store(out + i, v, lanes);
    });
    if (centered) saved.mean[n] = mean;
    saved.rstd[n] = rstd;
  });
}

// Computes dx, dgain and dbias in one sweep over memory. Each block of rows (reductions.hpp) has its own sums, which
// are added at the end.
void row_norm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                       const Norm& norm, int N, int C) {
  const Norm p = with_plain_gain(norm, C);
  const int blocks = row_blocks(N);
  const size_t half = static_cast<size_t>(blocks) * C;
  thread_local std::vector<float> sums;  // dgain (blocks,C), dbias (blocks,C)
  sums.assign(2 * half, 0.f);
  float* const first = sums.data();
  parallel_for(N, kRowBlock, 10 * static_cast<size_t>(C), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      const size_t row = static_cast<size_t>(n) * C;
      float* gain = first + static_cast<size_t>(n / kRowBlock) * C;
      backward_row(dx + row, {gain, gain + half}, dy + row, x + row, saved.mean ? saved.mean[n] : 0,
                   saved.rstd[n], p, C);
    }
  });
  if (g.gain) add_column_sums(g.gain, first, blocks, C);
  if (g.bias) add_column_sums(g.bias, first + half, blocks, C);
}
