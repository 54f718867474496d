#include "norm_gated.hpp"

#include <algorithm>
#include <vector>

#include "layernorm.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

// σ(x) and its slope σ(x)(1 − σ(x)) = e/(1 + e)², e = e^(−|x|): nothing cancels.
struct Sigmoid {
  Vec y, slope;
  explicit Sigmoid(Vec x) {
    const Vec e = simd::exp(-simd::abs(x)), share = 1.f / (1.f + e);
    y = x < 0.f ? e * share : share;
    slope = e * share * share;
  }
};

// The elementary operations of a row: `products` with down or up, and an exponential for each channel.
size_t cost_of(const Norm& p, int C, int products) {
  return static_cast<size_t>(C) * (static_cast<size_t>(products) * p.rank + 30);
}

// What the gate computes of at most kRowBlock rows.
struct Gate {
  std::vector<float> a, s, z;  // (rows,rank) (rows,rank) (rows,C)

  void compute(const float* v, const Norm& p, int rows, int C) {
    const size_t rank = p.rank, width = C;
    a.resize(rows * rank);
    s.resize(rows * rank);
    z.resize(rows * width);
    gemm_serial({a.data(), rank}, {v, width, 1}, {p.down, 1, width}, rows, p.rank, C, false);
    sweep(rows * p.rank, [&](int i, int lanes) {
      const Vec x = load(&a[i], lanes);
      store(&s[i], x * Sigmoid(x).y, lanes);
    });
    gemm_serial({z.data(), width}, {s.data(), rank, 1}, {p.up, 1, rank}, rows, C, p.rank, false);
  }
};

// The matrices' gradients, summed over the rows of one part.
struct Sums {
  float *down, *up;  // null if the matrix does not train
};

// The rows of a part. A part is at least one block and there are at most kParts, so the sums need little memory.
constexpr int kParts = 32;
int rows_of_part(int N) { return (row_blocks(N) + kParts - 1) / kParts * kRowBlock; }

// v = RMSNorm(x), as forward had it
void compute_again(float* v, const float* x, const float* rstd, const Norm& p, int rows, int C) {
  for (int n = 0; n < rows; ++n, x += C, v += C)
    sweep(C, [&](int i, int lanes) {
      Vec y = load(x + i, lanes) * rstd[n] * load(p.gain + i, lanes);
      if (p.bias) y += load(p.bias + i, lanes);
      store(v + i, y, lanes);
    });
}

// Writes dv of at most kRowBlock rows to dv, which may be dy, and adds their share of ddown and dup.
void backward_rows(float* dv, const Sums& sums, const float* dy, const float* x, const float* rstd, const Norm& p,
                   int rows, int C) {
  thread_local Gate gate;
  thread_local std::vector<float> values;
  const size_t rank = p.rank, width = C;
  values.resize(rows * width);
  float* const v = values.data();
  compute_again(v, x, rstd, p, rows, C);
  gate.compute(v, p, rows, C);
  float *a = gate.a.data(), *s = gate.s.data(), *z = gate.z.data();
  sweep(rows * C, [&](int i, int lanes) {
    const Sigmoid open(load(z + i, lanes));
    const Vec d = load(dy + i, lanes);
    store(z + i, d * load(v + i, lanes) * open.slope, lanes);  // y = σ(z) ⊙ v
    store(dv + i, d * open.y, lanes);                          // y = σ(z) ⊙ v
  });
  const float *dz = z, *ds = s, *da = a;  // each takes the place of its number
  if (sums.up) gemm_serial({sums.up, rank}, {dz, 1, width}, {s, rank, 1}, C, p.rank, rows, true);  // z = s upᵀ
  gemm_serial({s, rank}, {dz, width, 1}, {p.up, rank, 1}, rows, p.rank, C, false);                 // z = s upᵀ
  sweep(rows * p.rank, [&](int i, int lanes) {
    const Vec in = load(a + i, lanes);
    const Sigmoid open(in);
    store(a + i, load(ds + i, lanes) * (open.y + in * open.slope), lanes);  // s = SiLU(a)
  });
  if (sums.down) gemm_serial({sums.down, width}, {da, 1, rank}, {v, width, 1}, p.rank, C, rows, true);  // a = v downᵀ
  gemm_serial({dv, width}, {da, rank, 1}, {p.down, width, 1}, rows, C, p.rank, true);                   // a = v downᵀ
}

}  // namespace

void gatednorm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training) {
  row_norm_forward(y, saved, x, p, N, C, training);  // v
  parallel_for(N, kRowBlock, cost_of(p, C, 2), [&](int begin, int end) {
    thread_local Gate gate;
    for (int n = begin; n < end; n += kRowBlock) {
      const int rows = std::min(kRowBlock, end - n);
      float* v = y + static_cast<size_t>(n) * C;
      gate.compute(v, p, rows, C);
      sweep(rows * C, [&, z = gate.z.data()](int i, int lanes) {
        store(v + i, Sigmoid(load(z + i, lanes)).y * load(v + i, lanes), lanes);
      });
    }
  });
}

void gatednorm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                        const Norm& p, int N, int C) {
  const int part_rows = rows_of_part(N), parts = (N + part_rows - 1) / part_rows;
  const size_t size = static_cast<size_t>(p.rank) * C;
  thread_local std::vector<float> sums;  // ddown (parts,rank,C), dup (parts,C,rank)
  sums.assign(2 * parts * size, 0.f);
  float *const ddown = sums.data(), *const dup = ddown + parts * size;
  parallel_for(N, part_rows, cost_of(p, C, 6), [&](int begin, int end) {
    for (int n = begin; n < end; n += kRowBlock) {
      const size_t row = static_cast<size_t>(n) * C, part = n / part_rows;
      backward_rows(dx + row, {g.down ? ddown + part * size : nullptr, g.up ? dup + part * size : nullptr}, dy + row,
                    x + row, saved.rstd + n, p, std::min(kRowBlock, end - n), C);
    }
  });
  if (g.down) add_column_sums(g.down, ddown, parts, p.rank * C);
  if (g.up) add_column_sums(g.up, dup, parts, p.rank * C);
  row_norm_backward(dx, g, dx, x, saved, p, N, C);
}
