#include "sphere.hpp"

#include <cmath>

#include "layers/config/parametrization.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"
#include "layers/kernels/simd.hpp"

using simd::dot;
using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

void declare_sphere(Streams& p, Layout& layout, const Config& config, const std::string& prefix) {
  const float root = std::sqrt(static_cast<float>(config.channels));
  p.rate = layout.take(prefix + ".rate", Role::streams, {config.channels}, {1 / root, 0});
  p.rate_factor = root * config.eigen_rate_init * static_cast<float>(branch_factor(config));
}

namespace {

float reciprocal_length(const float* x, int C) {
  const double squares = dot(x, x, C);
  return squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0;
}

// A row: x̂, f̂, α and s at channel i.
struct Row {
  const float *x, *f;
  const Streams& p;
  float rx, rf;

  Row(const float* x, const float* f, const Streams& p, int C)
      : x(x), f(f), p(p), rx(reciprocal_length(x, C)), rf(reciprocal_length(f, C)) {}
  Vec unit_x(int i, int lanes) const { return rx * load(x + i, lanes); }
  Vec unit_f(int i, int lanes) const { return rf * load(f + i, lanes); }
  Vec rate(int i, int lanes) const { return p.rate_factor * simd::abs(load(p.rate + i, lanes)); }
  Vec sum(int i, int lanes) const {
    const Vec from = unit_x(i, lanes);
    return from + rate(i, lanes) * (unit_f(i, lanes) - from);
  }
};

}  // namespace

void sphere_write(float* y, const float* x, const float* f, const Streams& p, int N, int C) {
  parallel_each(N, 8 * static_cast<size_t>(C), [&](size_t n) {
    const Row row(x + n * C, f + n * C, p, C);
    float* out = y + n * C;
    sweep(C, [&](int i, int lanes) { store(out + i, row.sum(i, lanes), lanes); });
    const float rs = reciprocal_length(out, C);
    sweep(C, [&](int i, int lanes) { store(out + i, rs * load(out + i, lanes), lanes); });
  });
}

void sphere_write_backward(float* d, float* df, float* sums, const float* x, const float* f, const Streams& p, int N,
                           int C) {
  parallel_for(N, kRowBlock, 24 * static_cast<size_t>(C), [&](int begin, int end) {
    for (size_t n = begin; n < static_cast<size_t>(end); ++n) {
      const Row row(x + n * C, f + n * C, p, C);
      float *dx = d + n * C, *dout = df + n * C, *sum = sums + n / kRowBlock * C;
      const bool first = n % kRowBlock == 0;

      sweep(C, [&](int i, int lanes) { store(dout + i, row.sum(i, lanes), lanes); });  // s, for now
      const float rs = reciprocal_length(dout, C);
      const float along_y = rs * rs * static_cast<float>(dot(dx, dout, C));
      sweep(C, [&](int i, int lanes) {
        const Vec ds = rs * (load(dx + i, lanes) - along_y * load(dout + i, lanes));  // y = s/‖s‖
        const Vec to_f = row.rate(i, lanes) * ds, way = row.unit_f(i, lanes) - row.unit_x(i, lanes);
        store(sum + i, (first ? Vec{} : load(sum + i, lanes)) + ds * way, lanes);  // s = x̂ + α ⊙ (f̂ − x̂)
        store(dout + i, to_f, lanes);                                            // s = x̂ + α ⊙ (f̂ − x̂)
        store(dx + i, ds - to_f, lanes);                                         // s = x̂ + α ⊙ (f̂ − x̂)
      });

      const float along_f = row.rf * static_cast<float>(dot(dout, row.f, C));
      const float along_x = row.rx * static_cast<float>(dot(dx, row.x, C));
      sweep(C, [&](int i, int lanes) {
        store(dout + i, row.rf * (load(dout + i, lanes) - along_f * row.unit_f(i, lanes)), lanes);  // f̂ = f/‖f‖
        store(dx + i, row.rx * (load(dx + i, lanes) - along_x * row.unit_x(i, lanes)), lanes);      // x̂ = x/‖x‖
      });
    }
  });
}

void sphere_rate_backward(float* da, const float* sums, const Streams& p, int N, int C) {
  thread_local std::vector<float> total;  // (C)
  total.assign(C, 0.f);
  add_column_sums(total.data(), sums, row_blocks(N), C);
  for (int c = 0; c < C; ++c) {  // α = |a|·rate_factor
    const float sign = static_cast<float>((p.rate[c] > 0) - (p.rate[c] < 0));
    da[c] += sign * p.rate_factor * total[c];
  }
}
