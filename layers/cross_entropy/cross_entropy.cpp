#include "cross_entropy.hpp"

#include <algorithm>
#include <cmath>

#include "layers/kernels/elementwise.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

// The slope of logit = c·tanh(u/c), 1 − tanh²: du = dlogit·slope.
template <class Number>
Number cap_slope(Number logit, float cap) {
  const Number t = logit / cap;
  return 1.f - t * t;
}

// Computes one row. Subtracts the largest logit first, so that no exponential overflows.
float row_loss(float* dlogits, const float* logits, int target, float scale, int V, LogitLimits limits) {
  const float cap = limits.cap, z_loss = limits.z_loss;
  Vec largest = simd::all(logits[0]);
  sweep(V, [&](int v, int lanes) { largest = simd::max(load(logits + v, lanes, logits[0]), largest); });
  const float top = simd::max(largest);
  Vec sums = {};
  sweep(V, [&](int v, int lanes) { sums += simd::exp(load(logits + v, lanes, -INFINITY) - top); });
  const double sum = simd::sum(sums);
  const float loss = static_cast<float>(std::log(sum) - (static_cast<double>(logits[target]) - top));
  if (dlogits) {
    const float all = scale * limits.smoothing / static_cast<float>(V), at_target = scale * (1 - limits.smoothing);
    const float share = static_cast<float>(scale * (1 + 2 * z_loss * (std::log(sum) + top)) / sum);
    if (cap > 0) {
      const float logit_of_target = logits[target];
      sweep(V, [&](int v, int lanes) {
        const Vec logit = load(logits + v, lanes);
        store(dlogits + v, (simd::exp(logit - top) * share - all) * cap_slope(logit, cap), lanes);
      });
      dlogits[target] -= at_target * cap_slope(logit_of_target, cap);
    } else {
      sweep(V, [&](int v, int lanes) {
        store(dlogits + v, simd::exp(load(logits + v, lanes) - top) * share - all, lanes);
      });
      dlogits[target] -= at_target;
    }
  }
  return loss;
}

}  // namespace

void cross_entropy(float* losses, float* dlogits, const float* logits, const int* targets, float scale, int N,
                   int V, LogitLimits limits) {
  parallel_each(N, 40 * static_cast<size_t>(V), [&](size_t n) {
    const size_t row = n * V;
    if (targets[n] == kIgnore) {
      losses[n] = 0;
      if (dlogits) std::fill_n(dlogits + row, V, 0.f);
    } else {
      losses[n] =
          row_loss(dlogits ? dlogits + row : nullptr, logits + row, targets[n], scale * limits.scale, V, limits);
    }
  });
}

int classifier_rows(int N, int V) {
  constexpr int kFewest = 256, kFloats = 1 << 22;
  return std::min(N, std::max(kFewest, kFloats / V));
}

void head_forward(float* logits, const float* x, const Head& p, int N, int C, int V) {
  linear_forward(logits, x, p, {N, C, V});
  if (p.limits.cap == 0) return scale_rows(logits, p.limits.scale, N, V);
  parallel_each(N, 40 * static_cast<size_t>(V), [&](size_t n) {
    soft_cap(logits + n * V, nullptr, p.limits.scale, p.limits.cap, V);
  });
}

void classifier(const ClassifierBuffers& out, float* dx, const Head& g, const float* x, const Head& p,
                const int* targets, float scale, const LinearShape& shape) {
  const auto [N, C, V] = shape;
  float* logits = out.logits;
  const int rows = classifier_rows(N, V);
  for (int n = 0; n < N; n += rows) {
    const int m = std::min(rows, N - n);
    const size_t at = static_cast<size_t>(n) * C;
    head_forward(logits, x + at, p, m, C, V);
    cross_entropy(out.losses + n, dx ? logits : nullptr, logits, targets + n, scale, m, V, p.limits);
    if (dx) linear_backward(dx + at, g, logits, x + at, p, {m, C, V});  // u = x weightᵀ + bias
  }
}
