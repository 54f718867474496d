#include "cross_entropy.hpp"

#include <cmath>

#include "gemm.hpp"
#include "parallel.hpp"
#include "simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

// One row; the largest logit is subtracted first so that no exponential overflows.
float row_loss(float* dlogits, const float* logits, int target, float scale, int V) {
  Vec largest = simd::all(logits[0]);
  sweep(V, [&](int v, int lanes) { largest = simd::max(load(logits + v, lanes, logits[0]), largest); });
  const float top = simd::max(largest);
  Vec sums = {};
  sweep(V, [&](int v, int lanes) { sums += simd::exp(load(logits + v, lanes, -INFINITY) - top); });
  const double sum = simd::sum(sums);
  const float loss = static_cast<float>(std::log(sum) - (static_cast<double>(logits[target]) - top));
  if (dlogits) {
    const float share = static_cast<float>(scale / sum);
    sweep(V, [&](int v, int lanes) { store(dlogits + v, simd::exp(load(logits + v, lanes) - top) * share, lanes); });
    dlogits[target] -= scale;
  }
  return loss;
}

}  // namespace

void cross_entropy(float* losses, float* dlogits, const float* logits, const int* targets, float scale, int N,
                   int V) {
  parallel_for(N, 1, 40 * static_cast<size_t>(V), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      const size_t row = static_cast<size_t>(n) * V;
      if (targets[n] == kIgnore) {
        losses[n] = 0;
        if (dlogits) std::fill_n(dlogits + row, V, 0.f);
      } else {
        losses[n] = row_loss(dlogits ? dlogits + row : nullptr, logits + row, targets[n], scale, V);
      }
    }
  });
}

int classifier_rows(int N, int V) {
  constexpr int kFewest = 256, kFloats = 1 << 22;
  return std::min(N, std::max(kFewest, kFloats / V));
}

void classifier(float* losses, float* dx, float* dweight, const float* x, const float* weight,
                const int* targets, float scale, float* logits, int N, int C, int V, Matmul matmul) {
  const int rows = classifier_rows(N, V);
  for (int n = 0; n < N; n += rows) {
    const int m = std::min(rows, N - n);
    const size_t at = static_cast<size_t>(n) * C;
    gemm_nt(logits, x + at, weight, m, V, C, {.matmul = matmul});
    cross_entropy(losses + n, dx ? logits : nullptr, logits, targets + n, scale, m, V);
    if (!dx) continue;
    gemm_tn(dweight, logits, x + at, V, C, m, {.accumulate = true, .matmul = matmul});  // logits = x wᵀ
    gemm_nn(dx + at, logits, weight, m, C, V, {.matmul = matmul});
  }
}
