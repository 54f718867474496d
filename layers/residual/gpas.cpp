#include "gpas.hpp"

#include <cmath>
#include <vector>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::Vec;

namespace {

struct Silu {
  double y, slope;
};
Silu silu(double g) {
  const double sigmoid = 1 / (1 + std::exp(-g));
  return {g * sigmoid, sigmoid + g * sigmoid * (1 - sigmoid)};
}

}  // namespace

Gpas declare_gpas(Layout& layout) { return {layout.take("gpas.gate", Role::mix, {1})}; }

void gpas_forward(float* y, const float* s, const Gpas& p, int N, int C) {
  if (!p.present()) return;
  const float factor = static_cast<float>(1 - silu(static_cast<double>(*p.gate)).y);
  parallel_for(N, 1, static_cast<size_t>(C), [&](int begin, int end) {
    for (size_t n = begin; n < static_cast<size_t>(end); ++n)
      simd::sweep(C, [&](int i, int lanes) { store(y + n * C + i, factor * load(s + n * C + i, lanes), lanes); });
  });
}

// Sums each block of rows separately.
void gpas_backward(const Gpas& g, const float* dy, const float* s, const Gpas& p, int N, int C) {
  if (!p.present()) return;
  std::vector<double> sums(row_blocks(N));
  parallel_for(N, kRowBlock, 2 * static_cast<size_t>(C), [&](int begin, int end) {
    for (size_t n = begin; n < static_cast<size_t>(end); ++n) {
      Vec products = {};
      simd::sweep(C, [&](int i, int lanes) {
        products += load(dy + n * C + i, lanes) * load(s + n * C + i, lanes);
      });
      sums[n / kRowBlock] += simd::sum(products);
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  *g.gate -= static_cast<float>(silu(static_cast<double>(*p.gate)).slope * total);  // y = s − SiLU(g)·stop_gradient(s)
}
