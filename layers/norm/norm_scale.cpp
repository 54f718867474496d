#include "norm_scale.hpp"

#include <cmath>
#include <vector>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

using simd::dot;
using simd::load;
using simd::store;
using simd::sweep;

void scalenorm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool) {
  parallel_each(N, 3 * static_cast<size_t>(C), [&](size_t n) {
    const float* in = x + n * C;
    float* out = y + n * C;
    saved.rstd[n] = static_cast<float>(1 / std::sqrt(dot(in, in, C) + C * static_cast<double>(p.eps)));
    const float factor = *p.gain * saved.rstd[n];
    sweep(C, [&](int i, int lanes) { store(out + i, load(in + i, lanes) * factor, lanes); });
  });
}

void scalenorm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                        const Norm& p, int N, int C) {
  thread_local std::vector<double> dots;  // (N) Σ dy·u of each row
  dots.resize(N);
  double* const along = dots.data();
  parallel_each(N, 6 * static_cast<size_t>(C), [&](size_t n) {
    const size_t row = n * C;
    const float r = saved.rstd[n], factor = *p.gain * r;
    along[n] = static_cast<double>(r) * dot(dy + row, x + row, C);
    const float back = static_cast<float>(along[n]) * r;  // u·Σ dy·u = x·r·Σ dy·u
    sweep(C, [&](int i, int lanes) {
      store(dx + row + i, factor * (load(dy + row + i, lanes) - load(x + row + i, lanes) * back), lanes);
    });
  });
  double sum = 0;
  for (int n = 0; n < N; ++n) sum += along[n];
  *g.gain += static_cast<float>(sum);
}
