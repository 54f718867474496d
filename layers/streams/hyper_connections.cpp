#include "hyper_connections.hpp"

#include <algorithm>
#include <vector>

#include "layers/kernels/elementwise.hpp"
#include "layers/kernels/simd.hpp"
#include "planes.hpp"
#include "stream_projection.hpp"

using simd::all;
using simd::load;
using simd::multiply_add;
using simd::store;
using simd::sweep;
using simd::Vec;

// Branch k starts as Pre-LN: it reads stream k mod S and adds to every stream (eq. 14). Constants have no weight decay,
// as in the paper, because they are vectors here. The paper also scales the output matrices by √S. Whether up or down
// could not be verified, so they start as in Pre-LN here.
void declare_hyper(Streams& p, Layout& layout, const Config& config, const std::string& prefix, int branch) {
  const int S = p.count, C = config.channels;
  const size_t first = static_cast<size_t>(branch % S), rows = static_cast<size_t>(S);
  p.read = layout.take(prefix + ".read", Role::streams, {S}, {0, 0, rows, first});
  p.carry = layout.take(prefix + ".carry", Role::streams, {S * S}, {0, 0, rows + 1, 0});
  p.write = layout.take(prefix + ".write", Role::streams, {S}, {1, 0});
  if (p.rule == StreamRule::hyper_static) return;
  p.norm = declare_norm(layout, config, prefix + ".norm", C);
  p.weight = layout.take(prefix + ".weight", Role::streams, {S + 2, C});
  p.scale = layout.take(prefix + ".scale", Role::streams, {2}, {config.placement_row->stream_scale, 0});
}

// ---- the coefficients --------------------------------------------------------------------------------------------

namespace {

// The constant in coefficient j of stream s.
float* constant(const Streams& p, int s, int j) {
  if (j == 0) return p.read + s;
  return j <= p.count ? p.carry + s * p.count + j - 1 : p.write + s;
}

}  // namespace

void hyper_coefficients(float* coefficients, const float* z, const Streams& p, int N) {
  each_coefficient(p.coefficients(), N, [&](int k) {
    const int s = k / (p.count + 2), j = k % (p.count + 2);
    float* out = coefficients + plane(k, N);
    const float still = *constant(p, s, j), scale = p.scale ? p.scale[j > p.count] : 0;
    if (!z) {
      std::fill_n(out, N, still);
      return;
    }
    sweep(N, [&](int n, int lanes) {
      store(out + n, multiply_add(all(still), all(scale), simd::tanh(load(z + plane(k, N) + n, lanes))), lanes);
    });
  });
}

namespace {

// d holds the gradients of the coefficients before the call, and of z after it.
void hyper_coefficients_backward(float* d, const Streams& g, const float* z, const Streams& p, int N) {
  const int K = p.coefficients();
  std::vector<double> dscale(K);
  each_coefficient(K, N, [&](int k) {
    const int s = k / (p.count + 2), j = k % (p.count + 2);
    float* dk = d + plane(k, N);
    *constant(g, s, j) += static_cast<float>(sum_of(dk, N));
    if (!z) return;
    const float scale = p.scale[j > p.count];
    simd::Half sums = {};
    sweep(N, [&](int n, int lanes) {
      const Vec t = simd::tanh(load(z + plane(k, N) + n, lanes)), dy = load(dk + n, lanes);
      const simd::Halves products = simd::widen(dy * t);
      sums += products.low + products.high;
      store(dk + n, scale * dy * (1.f - t * t), lanes);
    });
    dscale[k] = simd::sum(sums);
  });
  if (!z) return;
  double both[2] = {};
  for (int k = 0; k < K; ++k) both[k % (p.count + 2) > p.count] += dscale[k];
  for (int i = 0; i < 2; ++i) g.scale[i] += static_cast<float>(both[i]);
}

}  // namespace

// ---- reading -----------------------------------------------------------------------------------------------------

void hyper_read(const StreamsSaved& saved, const StreamsScratch& scratch, const float* x, const Streams& p, int N,
                int C, bool training) {
  if (p.rule == StreamRule::hyper_static) return;
  norm_forward(scratch.wide, saved.norm, x, p.norm, p.count * N, C, training);
  project(saved.z, scratch.wide, p, N, C);
}

void hyper_read_backward(float* d, const Streams& g, const StreamsScratch& scratch, const float* x,
                         const StreamsSaved& saved, const Streams& p, int N, int C) {
  const int S = p.count;
  hyper_coefficients_backward(scratch.d, g, saved.z, p, N);
  if (p.rule == StreamRule::hyper_static) return;
  norm_forward(scratch.wide, saved.norm, x, p.norm, S * N, C, true);  // computed again, because it was not kept
  project_backward_weight(g.weight, scratch.d, scratch.wide, p, N, C);
  project_backward(scratch.wide, scratch.d, p, N, C, false);
  norm_backward(scratch.wide, g.norm, scratch.wide, x, saved.norm, p.norm, S * N, C);
  scaled_add(d, 1, d, scratch.wide, S * N, C);
}
