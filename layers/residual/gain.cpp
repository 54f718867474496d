#include "gain.hpp"

#include <vector>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"

Gain declare_gain(Layout& layout, const std::string& name, int channels, float start) {
  return {layout.take(name + ".gain", Role::gain, {channels}, {start, 0}), channels == 1};
}

const float* gain_forward(float* y, const float* x, const Gain& p, int N, int C) {
  if (!p.present()) return x;
  parallel_each(N, C, [&](size_t n) {
    for (int c = 0; c < C; ++c) {
      const size_t i = n * C + c;
      y[i] = p.factor * p.weight[p.single ? 0 : c] * x[i];
    }
  });
  return y;
}

// Sums each block of rows separately, as in a norm's backward.
const float* gain_backward(float* dx, const Gain& g, const float* dy, const float* x, const Gain& p, int N, int C) {
  if (!p.present()) return dy;
  const int blocks = row_blocks(N);
  thread_local std::vector<float> sums;  // (blocks,C)
  sums.assign(static_cast<size_t>(blocks) * C, 0.f);
  float* const first = sums.data();
  parallel_for(N, kRowBlock, 3 * static_cast<size_t>(C), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      float* sum = first + static_cast<size_t>(n / kRowBlock) * C;
      for (int c = 0; c < C; ++c) {
        const size_t i = static_cast<size_t>(n) * C + c;
        const float d = p.factor * dy[i];
        sum[c] += d * x[i];                        // y = s·λ ⊙ x
        dx[i] = p.weight[p.single ? 0 : c] * d;  // y = s·λ ⊙ x
      }
    }
  });
  if (!p.single) {
    add_column_sums(g.weight, first, blocks, C);
  } else {
    double total = 0;
    for (float sum : sums) total += static_cast<double>(sum);
    *g.weight += static_cast<float>(total);
  }
  return dx;
}
