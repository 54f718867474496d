#include "norm.hpp"

#include <cmath>

#include "parallel.hpp"
#include "simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

Norm declare_norm(Layout& layout, const Config& config, const std::string& name) {
  Norm p{config.norm, config.norm_eps};
  p.gain = layout.take(name + ".gain", {config.channels}, {1, 0});
  if (*config.norm_bias) p.bias = layout.take(name + ".bias", {config.channels});
  return p;
}

NormSaved declare_norm_saved(Layout& layout, const Config& config, const std::string& name, int N) {
  NormSaved saved;
  if (config.norm == NormKind::layernorm) saved.mean = layout.take(name + ".mean", {N});
  saved.rstd = layout.take(name + ".rstd", {N});
  return saved;
}

namespace {

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

}  // namespace

const float* norm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C) {
  if (!p.present()) return x;
  const bool centred = p.kind == NormKind::layernorm;
  parallel_for(N, 1, 4 * static_cast<size_t>(C), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      const float* in = x + static_cast<size_t>(n) * C;
      float* out = y + static_cast<size_t>(n) * C;
      const float mean = centred ? row_mean(in, C) : 0;
      const float rstd = static_cast<float>(1 / std::sqrt(row_variance(in, mean, C) + p.eps));
      sweep(C, [&](int i, int lanes) {
        Vec v = (load(in + i, lanes) - mean) * rstd * load(p.gain + i, lanes);
        if (p.bias) v += load(p.bias + i, lanes);
        store(out + i, v, lanes);
      });
      if (centred) saved.mean[n] = mean;
      saved.rstd[n] = rstd;
    }
  });
  return y;
}

namespace {

// dgain += Σₙ dy·x̂ and dbias += Σₙ dy, each thread over columns of its own, by chunks of rows.
void add_parameter_gradients(const Norm& g, const float* dy, const float* x, const NormSaved& saved, int N,
                             int C) {
  constexpr int kColumns = 64, kRows = 64;
  parallel_for(C, kColumns, 4 * static_cast<size_t>(N), [&](int begin, int end) {
    for (int c0 = begin; c0 < end; c0 += kColumns) {
      const int columns = std::min(kColumns, end - c0);
      double dgain[kColumns] = {}, dbias[kColumns] = {};
      for (int n0 = 0; n0 < N; n0 += kRows) {
        float gain_chunk[kColumns] = {}, bias_chunk[kColumns] = {};
        for (int n = n0; n < std::min(N, n0 + kRows); ++n) {
          const size_t row = static_cast<size_t>(n) * C + c0;
          const float mean = saved.mean ? saved.mean[n] : 0, rstd = saved.rstd[n];
          for (int c = 0; c < columns; ++c) {
            gain_chunk[c] += dy[row + c] * ((x[row + c] - mean) * rstd);  // y = gain·x̂ + bias
            bias_chunk[c] += dy[row + c];
          }
        }
        for (int c = 0; c < columns; ++c) {
          dgain[c] += static_cast<double>(gain_chunk[c]);
          dbias[c] += static_cast<double>(bias_chunk[c]);
        }
      }
      for (int c = 0; c < columns; ++c) {
        g.gain[c0 + c] += static_cast<float>(dgain[c]);
        if (g.bias) g.bias[c0 + c] += static_cast<float>(dbias[c]);
      }
    }
  });
}

}  // namespace

const float* norm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                           const Norm& p, int N, int C) {
  if (!p.present()) return dy;
  add_parameter_gradients(g, dy, x, saved, N, C);  // before dx, which may overwrite dy
  const bool centred = p.kind == NormKind::layernorm;
  parallel_for(N, 1, 8 * static_cast<size_t>(C), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      const size_t row = static_cast<size_t>(n) * C;
      const float mean = centred ? saved.mean[n] : 0, rstd = saved.rstd[n];
      const auto dxhat = [&](int i, int lanes) { return load(dy + row + i, lanes) * load(p.gain + i, lanes); };
      const auto xhat = [&](int i, int lanes) { return (load(x + row + i, lanes, mean) - mean) * rstd; };
      Vec sum = {}, dot = {};
      sweep(C, [&](int i, int lanes) {
        const Vec d = dxhat(i, lanes);
        sum += d;
        dot += d * xhat(i, lanes);
      });
      const float mean_dxhat = centred ? static_cast<float>(simd::sum(sum) / C) : 0;
      const float mean_dot = static_cast<float>(simd::sum(dot) / C);
      sweep(C, [&](int i, int lanes) {
        store(dx + row + i, rstd * (dxhat(i, lanes) - mean_dxhat - xhat(i, lanes) * mean_dot), lanes);
      });
    }
  });
  return dx;
}
