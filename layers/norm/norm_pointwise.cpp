#include "norm_pointwise.hpp"

#include <vector>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

struct Tanh {
  static Vec y(Vec u) { return simd::tanh(u); }
  static Vec slope(Vec u) {  // 1 − tanh² = 4e/(1 + e)², e = e^(−2|u|): nothing cancels
    const Vec e = simd::exp(u < 0.f ? 2.f * u : -2.f * u), half = 1.f / (1.f + e);
    return 4.f * e * half * half;
  }
};

struct Erf {
  static Vec y(Vec u) { return simd::erf(u); }
  static Vec slope(Vec u) { return 1.1283791671f * simd::exp(-u * u); }
};

constexpr int kCost = 25;  // elementary operations per element, mostly the exponential

template <class Curve>
void forward(float* y, const float* x, const Norm& p, int N, int C) {
  const float alpha = *p.alpha, shift = p.shift ? *p.shift : 0;
  parallel_each(N, kCost * static_cast<size_t>(C), [&](size_t n) {
    const size_t row = n * C;
    sweep(C, [&](int i, int lanes) {
      Vec v = Curve::y(alpha * load(x + row + i, lanes) + shift) * load(p.gain + i, lanes);
      if (p.bias) v += load(p.bias + i, lanes);
      store(y + row + i, v, lanes);
    });
  });
}

// Sums over one block of rows.
struct Sums {
  float *gain, *bias;  // (C) each
  double alpha = 0, shift = 0;
};

template <class Curve>
void backward_row(float* dx, Sums& sums, const float* dy, const float* x, const Norm& p, int C) {
  const float alpha = *p.alpha, shift = p.shift ? *p.shift : 0;
  Vec sum_dux = {}, sum_du = {};
  sweep(C, [&](int i, int lanes) {
    const Vec d = load(dy + i, lanes), v = load(x + i, lanes), u = alpha * v + shift;
    const Vec du = d * load(p.gain + i, lanes) * Curve::slope(u);
    store(sums.gain + i, load(sums.gain + i, lanes) + d * Curve::y(u), lanes);  // y = gain·f(u) + bias
    store(sums.bias + i, load(sums.bias + i, lanes) + d, lanes);                // y = gain·f(u) + bias
    sum_dux += du * v;                                                          // u = alpha·x + shift
    sum_du += du;                                                               // u = alpha·x + shift
    store(dx + i, alpha * du, lanes);                                           // u = alpha·x + shift
  });
  sums.alpha += simd::sum(sum_dux);
  sums.shift += simd::sum(sum_du);
}

// Sums over blocks of rows, as row_norm_backward() does.
template <class Curve>
void backward(float* dx, const Norm& g, const float* dy, const float* x, const Norm& p, int N, int C) {
  const int blocks = row_blocks(N);
  const size_t half = static_cast<size_t>(blocks) * C;
  thread_local std::vector<float> columns;  // dgain (blocks,C), dbias (blocks,C)
  thread_local std::vector<Sums> sums;      // (blocks)
  columns.assign(2 * half, 0.f);
  sums.clear();
  for (int b = 0; b < blocks; ++b) {
    float* gain = columns.data() + static_cast<size_t>(b) * C;
    sums.push_back({gain, gain + half});
  }
  Sums* const of_block = sums.data();
  parallel_for(N, kRowBlock, 2 * kCost * static_cast<size_t>(C), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      const size_t row = static_cast<size_t>(n) * C;
      backward_row<Curve>(dx + row, of_block[n / kRowBlock], dy + row, x + row, p, C);
    }
  });
  add_column_sums(g.gain, columns.data(), blocks, C);
  if (g.bias) add_column_sums(g.bias, columns.data() + half, blocks, C);
  Sums total{};
  for (const Sums& block : sums) {
    total.alpha += block.alpha;
    total.shift += block.shift;
  }
  *g.alpha += static_cast<float>(total.alpha);
  if (g.shift) *g.shift += static_cast<float>(total.shift);
}

}  // namespace

void pointwise_forward(float* y, const NormSaved&, const float* x, const Norm& p, int N, int C, bool) {
  p.kind == NormKind::dyt ? forward<Tanh>(y, x, p, N, C) : forward<Erf>(y, x, p, N, C);
}

void pointwise_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved&, const Norm& p,
                        int N, int C) {
  p.kind == NormKind::dyt ? backward<Tanh>(dx, g, dy, x, p, N, C) : backward<Erf>(dx, g, dy, x, p, N, C);
}
