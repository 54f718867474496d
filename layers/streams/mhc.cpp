#include "mhc.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"
#include "planes.hpp"
#include "sinkhorn.hpp"
#include "stream_projection.hpp"

using simd::all;
using simd::load;
using simd::multiply_add;
using simd::store;
using simd::sweep;
using simd::Vec;

// The paper of mHC does not say how weight and bias start. As in transformers' DeepseekV4HyperConnection, the weight is
// drawn from N(0, .02²) and the bias is 0. Then a branch reads ½·Σₛ x[s] and carry is the mean of the streams. As long
// as the streams are equal, that is Pre-LN. If mean_read is set, as in HYV4HyperConnection, a branch reads
// σ(−ln(S − 1)) = 1/S of each stream; one stream has −ln 1.
void declare_mhc(Streams& p, Layout& layout, const Config& config, const std::string& prefix) {
  const Placement& row = *config.placement_row;
  const float read = row.mean_read ? -std::log(std::max(p.count - 1.f, 1.f)) : 0;
  const Start bias = {.mean = read, .zeros_from = size_t(p.kinds > 1 ? p.count : 0)};
  p.eps = config.norm_eps;
  p.weight = layout.take(prefix + ".weight", Role::streams, {p.coefficients(), p.count * config.channels}, {0, .02f});
  p.bias = layout.take(prefix + ".bias", Role::streams, {p.coefficients()}, bias);
  p.scale = layout.take(prefix + ".scale", Role::streams, {p.kinds}, {row.stream_scale, 0});
}

// ---- the coefficients --------------------------------------------------------------------------------------------

namespace {

// The index in the scale of row k of z.
int kind_of(int k, int S) { return (k >= S) + (k >= 2 * S); }

// The coefficients of W tokens from n on. For stream s, read comes from row s of z, write from row S + s, and carry to
// stream t from row 2S + s·S + t.
template <int S, int kinds>
struct Gates {
  static constexpr bool writes = kinds > 1, carries = kinds > 2;
  static constexpr int per_stream = carries ? S + 2 : kinds, K = S * per_stream;
  static constexpr float kWriteEps = carries ? 0 : kSinkhornEps;  // as in the classes of transformers
  Vec read[S], write[S];                                          // σ
  Sinkhorn<S> sinkhorn;

  Gates(const float* z, const Streams& p, int n, int N, int lanes) {
    const auto a = [&](int k) { return p.scale[kind_of(k, S)] * load(z + plane(k, N) + n, lanes) + p.bias[k]; };
    for (int s = 0; s < S; ++s) {
      read[s] = simd::sigmoid(a(s));
      if (writes) write[s] = simd::sigmoid(a(S + s));
    }
    if constexpr (carries) {
      Vec carry[S][S];
      for (int i = 0; i < S * S; ++i) carry[i / S][i % S] = a(2 * S + i);
      sinkhorn.forward(carry);
    }
  }
};

template <int S, int kinds, class F>
void each_gates(const float* z, const Streams& p, int N, F f) {
  parallel_for(N, kRowsTogether, kinds == 3 ? 200 * S * S : 20 * S, [&](int begin, int end) {
    for (int n = begin; n < end; n += simd::W) {
      const int lanes = std::min(simd::W, end - n);
      f(Gates<S, kinds>(z, p, n, N, lanes), n, lanes);
    }
  });
}

}  // namespace

void mhc_coefficients(float* coefficients, const float* z, const Streams& p, int N) {
  with_kinds(p, [&](auto count, auto kinds) {
    constexpr int S = count;
    each_gates<S, kinds>(z, p, N, [&](const Gates<S, kinds>& m, int n, int lanes) {
      for (int s = 0; s < S; ++s) {
        float* out = coefficients + plane(s * m.per_stream, N) + n;
        store(out, m.read[s] + kSinkhornEps, lanes);
        for (int t = 0; t < S && m.carries; ++t) store(out + plane(1 + t, N), m.sinkhorn.out()[s][t], lanes);
        if (m.writes) store(out + plane(m.per_stream - 1, N), 2.f * m.write[s] + m.kWriteEps, lanes);
      }
    });
  });
}

namespace {

// d holds the gradients of the coefficients before the call, and of z after it. The rows of z have the order of the
// weight.
void mhc_coefficients_backward(float* d, const Streams& g, const float* z, const Streams& p, int N) {
  const int S = p.count, K = p.coefficients();
  with_kinds(p, [&](auto count, auto kinds) {
    constexpr int S = count;
    each_gates<S, kinds>(z, p, N, [&](const Gates<S, kinds>& m, int n, int lanes) {
      Vec da[m.K], dcarry[S][S];
      for (int s = 0; s < S; ++s) {
        const float* of = d + plane(s * m.per_stream, N) + n;
        da[s] = load(of, lanes) * m.read[s] * (1.f - m.read[s]);
        if constexpr (m.writes)
          da[S + s] = 2.f * load(of + plane(m.per_stream - 1, N), lanes) * m.write[s] * (1.f - m.write[s]);
        for (int t = 0; t < S && m.carries; ++t) dcarry[s][t] = load(of + plane(1 + t, N), lanes);
      }
      if constexpr (m.carries) {
        m.sinkhorn.backward(dcarry);
        for (int i = 0; i < S * S; ++i) da[2 * S + i] = dcarry[i / S][i % S];
      }
      for (int k = 0; k < m.K; ++k) store(d + plane(k, N) + n, da[k], lanes);
    });
  });
  std::vector<double> dscale(K);
  each_coefficient(K, N, [&](int k) {  // a = scale·z + bias
    float* da = d + plane(k, N);
    g.bias[k] += static_cast<float>(sum_of(da, N));
    dscale[k] = 0;
    for (int n = 0; n < N; ++n) dscale[k] += static_cast<double>(da[n]) * z[plane(k, N) + n];
    const float scale = p.scale[kind_of(k, S)];
    for (int n = 0; n < N; ++n) da[n] *= scale;
  });
  double sums[3] = {};
  for (int k = 0; k < K; ++k) sums[kind_of(k, S)] += dscale[k];
  for (int i = 0; i < p.kinds; ++i) g.scale[i] += static_cast<float>(sums[i]);
}

// ---- z -----------------------------------------------------------------------------------------------------------

// Computes rstd[n] = 1/√(mean x² + eps) over the numbers of all streams, and multiplies z by it.
void normalize_z(float* z, float* rstd, const float* x, const Streams& p, int N, int C) {
  parallel_for(N, kRowsTogether, plane(p.count, C), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      double squares = 0;
      for (int s = 0; s < p.count; ++s) {
        const float* row = x + s * plane(N, C) + plane(n, C);
        squares += simd::dot(row, row, C);
      }
      rstd[n] = static_cast<float>(1 / std::sqrt(squares / (double(p.count) * C) + static_cast<double>(p.eps)));
    }
    for (int k = 0; k < p.coefficients(); ++k)
      for (int n = begin; n < end; ++n) z[plane(k, N) + n] *= rstd[n];
  });
}

// z = rstd·u: dz becomes du, and d gets −rstd²/(S·C)·(Σ dz·z)·x, the gradient through rstd.
void normalize_z_backward(float* dz, float* d, const float* x, const StreamsSaved& saved, const Streams& p, int N,
                          int C) {
  parallel_for(N, kRowsTogether, 3 * plane(p.count, C), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      double sum = 0;
      for (int k = 0; k < p.coefficients(); ++k) {
        const size_t at = plane(k, N) + n;
        sum += static_cast<double>(dz[at]) * saved.z[at];
        dz[at] *= saved.rstd[n];
      }
      const double r = static_cast<double>(saved.rstd[n]);
      const Vec factor = all(static_cast<float>(-r * r * sum / (double(p.count) * C)));
      for (int s = 0; s < p.count; ++s) {
        const size_t row = s * plane(N, C) + plane(n, C);
        sweep(C, [&](int c, int lanes) {
          float* dx = d + row + c;
          store(dx, multiply_add(load(dx, lanes), factor, load(x + row + c, lanes)), lanes);
        });
      }
    }
  });
}

}  // namespace

// ---- reading -----------------------------------------------------------------------------------------------------

void mhc_read(const StreamsSaved& saved, const float* x, const Streams& p, int N, int C) {
  project(saved.z, x, p, N, C);
  normalize_z(saved.z, saved.rstd, x, p, N, C);
}

void mhc_read_backward(float* d, const Streams& g, const StreamsScratch& scratch, const float* x,
                       const StreamsSaved& saved, const Streams& p, int N, int C) {
  mhc_coefficients_backward(scratch.d, g, saved.z, p, N);
  normalize_z_backward(scratch.d, d, x, saved, p, N, C);
  project_backward_weight(g.weight, scratch.d, x, p, N, C);
  project_backward(d, scratch.d, p, N, C, true);
}
