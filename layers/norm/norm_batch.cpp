#include "norm_batch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;
using simd::W;

namespace {

// sums (C) = Σₙ f(n·C, c, lanes), in double. f returns values for the channels from c on.
template <class F>
void column_sums(std::vector<double>& sums, int N, int C, F f) {
  const int blocks = row_blocks(N);
  const size_t width = (static_cast<size_t>(C) + W - 1) / W * W;
  thread_local std::vector<double> parts;  // (blocks, width)
  parts.resize(blocks * width);
  double* const first = parts.data();
  parallel_each(blocks, kRowBlock * width * 4, [&](int block) {
    sweep(C, [&](int i, int lanes) {
      simd::Half low = {}, high = {};
      for (int n = block * kRowBlock; n < std::min(N, (block + 1) * kRowBlock); ++n) {
        const simd::Halves v = simd::widen(f(static_cast<size_t>(n) * C, i, lanes));
        low += v.low;
        high += v.high;
      }
      std::memcpy(first + block * width + i, &low, sizeof low);
      std::memcpy(first + block * width + i + W / 2, &high, sizeof high);
    });
  });
  sums.assign(width, 0);
  for (int block = 0; block < blocks; ++block)
    for (int c = 0; c < C; ++c) sums[c] += first[block * width + c];
}

template <class F>
void column_means(float* means, int N, int C, F f) {
  thread_local std::vector<double> sums;
  column_sums(sums, N, C, f);
  for (int c = 0; c < C; ++c) means[c] = static_cast<float>(sums[c] / N);
}

std::vector<float> reciprocal_deviations(const float* variance, float eps, int C) {
  std::vector<float> r(C);
  for (int c = 0; c < C; ++c) r[c] = static_cast<float>(1 / std::sqrt(static_cast<double>(variance[c]) + eps));
  return r;
}

}  // namespace

void batchnorm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training) {
  const float *mean = p.running_mean, *variance = p.running_var;
  if (training) {
    mean = saved.mean;
    variance = saved.variance;
    column_means(saved.mean, N, C, [=](size_t row, int i, int lanes) { return load(x + row + i, lanes); });
    column_means(saved.variance, N, C, [=](size_t row, int i, int lanes) {
      const Vec d = load(x + row + i, lanes) - load(mean + i, lanes);
      return d * d;
    });
  }
  const std::vector<float> deviations = reciprocal_deviations(variance, p.eps, C);
  const float* r = deviations.data();
  parallel_each(N, 2 * static_cast<size_t>(C), [&](size_t n) {
    const size_t row = n * C;
    sweep(C, [&](int i, int lanes) {
      Vec v = (load(x + row + i, lanes) - load(mean + i, lanes)) * load(r + i, lanes) * load(p.gain + i, lanes);
      if (p.bias) v += load(p.bias + i, lanes);
      store(y + row + i, v, lanes);
    });
  });
}

void batchnorm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                        const Norm& p, int N, int C) {
  const std::vector<float> deviations = reciprocal_deviations(saved.variance, p.eps, C);
  const float *mean = saved.mean, *r = deviations.data();
  const auto xhat = [=](size_t row, int i, int lanes) {
    return (load(x + row + i, lanes) - load(mean + i, lanes)) * load(r + i, lanes);
  };
  thread_local std::vector<double> sums, dots;
  column_sums(sums, N, C, [=](size_t row, int i, int lanes) { return load(dy + row + i, lanes); });
  column_sums(dots, N, C,
              [=](size_t row, int i, int lanes) { return load(dy + row + i, lanes) * xhat(row, i, lanes); });
  std::vector<float> means(2 * static_cast<size_t>(C));
  float *mean_dy = means.data(), *mean_dot = mean_dy + C;
  for (int c = 0; c < C; ++c) {
    mean_dy[c] = static_cast<float>(sums[c] / N);
    mean_dot[c] = static_cast<float>(dots[c] / N);
    g.gain[c] += static_cast<float>(dots[c]);              // y = gain·x̂ + bias
    if (g.bias) g.bias[c] += static_cast<float>(sums[c]);  // y = gain·x̂ + bias
  }
  parallel_each(N, 4 * static_cast<size_t>(C), [&](size_t n) {
    const size_t row = n * C;
    sweep(C, [&](int i, int lanes) {
      const Vec d = load(dy + row + i, lanes) - load(mean_dy + i, lanes);
      const Vec back = d - xhat(row, i, lanes) * load(mean_dot + i, lanes);
      store(dx + row + i, load(p.gain + i, lanes) * load(r + i, lanes) * back, lanes);
    });
  });
  const float unbiased = N > 1 ? static_cast<float>(N) / static_cast<float>(N - 1) : 1;  // the variance of one row is 0
  for (int c = 0; c < C; ++c) {
    p.running_mean[c] = add_to_running(p.running_mean[c], kMomentum * mean[c]);
    p.running_var[c] = add_to_running(p.running_var[c], kMomentum * (unbiased * saved.variance[c]));
  }
}
