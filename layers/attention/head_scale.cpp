#include "head_scale.hpp"

#include <vector>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::Vec;

void head_scale_forward(float* y, const float* x, const Gain& c, int N, int H, int D) {
  parallel_for(N, 1, static_cast<size_t>(H) * D, [&](int begin, int end) {
    for (size_t head = static_cast<size_t>(begin) * H; head < static_cast<size_t>(end) * H; ++head)
      simd::sweep(D, [&](int i, int lanes) {
        store(y + head * D + i, c.weight[head % H] * load(x + head * D + i, lanes), lanes);
      });
  });
}

// Sums each block of rows separately, so that the order does not depend on the number of threads.
void head_scale_backward(float* d, const Gain& dc, const float* x, const Gain& c, int N, int H, int D) {
  std::vector<float> sums(static_cast<size_t>(row_blocks(N)) * H);  // (blocks,H)
  parallel_for(N, kRowBlock, 3 * static_cast<size_t>(H) * D, [&](int begin, int end) {
    for (size_t head = static_cast<size_t>(begin) * H; head < static_cast<size_t>(end) * H; ++head) {
      Vec along = {};
      simd::sweep(D, [&](int i, int lanes) {
        const size_t at = head * D + i;
        const Vec dy = load(d + at, lanes);
        along += dy * load(x + at, lanes);                   // y[h] = c[h]·x[h]
        store(d + at, c.weight[head % H] * dy, lanes);  // y[h] = c[h]·x[h]
      });
      sums[head / H / kRowBlock * H + head % H] += static_cast<float>(simd::sum(along));
    }
  });
  add_column_sums(dc.weight, sums.data(), row_blocks(N), H);
}
