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

// The paper does not say how weight and bias start. As in transformers' DeepseekV4HyperConnection, the weight is drawn
// from N(0, .02²) and the bias is 0. Then a branch reads ½·Σₛ x[s] and carry is the mean of the streams. As long as the
// streams are equal, that is Pre-LN.
void declare_mhc(Streams& p, Layout& layout, const Config& config, const std::string& prefix) {
  p.eps = config.norm_eps;
  p.weight = layout.take(prefix + ".weight", Role::streams, {p.coefficients(), p.count * config.channels}, {0, .02f});
  p.bias = layout.take(prefix + ".bias", Role::streams, {p.coefficients()});
  p.scale = layout.take(prefix + ".scale", Role::streams, {3}, {kFirstScale, 0});
}

// ---- the coefficients --------------------------------------------------------------------------------------------

namespace {

// The rows of z for W tokens from n on, and the coefficients. For stream s, read comes from row s of z, write from row
// S + s, and carry to stream t from row 2S + s·S + t.
template <int S>
struct Manifold {
  Vec z[S * (S + 2)], read[S], write[S];  // σ
  Sinkhorn<S> sinkhorn;

  static int kind(int k) { return (k >= S) + (k >= 2 * S); }  // index in the scale

  Manifold(const float* rows, const Streams& p, int n, int N, int lanes) {
    Vec a[S * (S + 2)], carry[S][S];
    for (int k = 0; k < S * (S + 2); ++k) {
      z[k] = load(rows + plane(k, N) + n, lanes);
      a[k] = p.scale[kind(k)] * z[k] + p.bias[k];
    }
    for (int s = 0; s < S; ++s) {
      read[s] = simd::sigmoid(a[s]);
      write[s] = simd::sigmoid(a[S + s]);
      for (int t = 0; t < S; ++t) carry[s][t] = a[2 * S + s * S + t];
    }
    sinkhorn.forward(carry);
  }
};

template <int S, class F>
void each_manifold(const float* z, const Streams& p, int N, F f) {
  parallel_for(N, kRowsTogether, 200 * S * S, [&](int begin, int end) {
    for (int n = begin; n < end; n += simd::W) {
      const int lanes = std::min(simd::W, end - n);
      f(Manifold<S>(z, p, n, N, lanes), n, lanes);
    }
  });
}

}  // namespace

void mhc_coefficients(float* coefficients, const float* z, const Streams& p, int N) {
  with_count(p.count, [&](auto count) {
    constexpr int S = count;
    each_manifold<S>(z, p, N, [&](const Manifold<S>& m, int n, int lanes) {
      for (int s = 0; s < S; ++s) {
        float* out = coefficients + plane(s * (S + 2), N) + n;
        store(out, m.read[s] + kSinkhornEps, lanes);
        for (int t = 0; t < S; ++t) store(out + plane(1 + t, N), m.sinkhorn.out()[s][t], lanes);
        store(out + plane(S + 1, N), 2.f * m.write[s], lanes);
      }
    });
  });
}

namespace {

// d holds the gradients of the coefficients before the call, and of z after it. The rows of z have the order of the
// weight.
void mhc_coefficients_backward(float* d, const Streams& g, const float* z, const Streams& p, int N) {
  with_count(p.count, [&](auto count) {
    constexpr int S = count;
    each_manifold<S>(z, p, N, [&](const Manifold<S>& m, int n, int lanes) {
      Vec da[S * (S + 2)], dcarry[S][S];
      for (int s = 0; s < S; ++s) {
        const float* of = d + plane(s * (S + 2), N) + n;
        da[s] = load(of, lanes) * m.read[s] * (1.f - m.read[s]);
        da[S + s] = 2.f * load(of + plane(S + 1, N), lanes) * m.write[s] * (1.f - m.write[s]);
        for (int t = 0; t < S; ++t) dcarry[s][t] = load(of + plane(1 + t, N), lanes);
      }
      m.sinkhorn.backward(dcarry);
      for (int i = 0; i < S * S; ++i) da[2 * S + i] = dcarry[i / S][i % S];
      for (int k = 0; k < S * (S + 2); ++k) store(d + plane(k, N) + n, da[k], lanes);
    });
    std::vector<double> dscale(p.coefficients());
    each_coefficient(S, N, [&](int k, int, int) {  // a = scale·z + bias
      float* da = d + plane(k, N);
      g.bias[k] += static_cast<float>(sum_of(da, N));
      dscale[k] = 0;
      for (int n = 0; n < N; ++n) dscale[k] += static_cast<double>(da[n]) * z[plane(k, N) + n];
      const float scale = p.scale[Manifold<S>::kind(k)];
      for (int n = 0; n < N; ++n) da[n] *= scale;
    });
    double sums[3] = {};
    for (int k = 0; k < p.coefficients(); ++k) sums[Manifold<S>::kind(k)] += dscale[k];
    for (int i = 0; i < 3; ++i) g.scale[i] += static_cast<float>(sums[i]);
  });
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
