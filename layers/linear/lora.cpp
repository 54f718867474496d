#include "lora.hpp"

#include <algorithm>
#include <cstring>

#include "layers/kernels/buffer.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"

namespace {

constexpr int kRows = 64;  // rows of a product that a thread takes at a time

// Calls f(first row, rows) for pieces of n rows of `cost` multiply-adds each.
template <class F>
void for_pieces(int n, size_t cost, const F& f) {
  parallel_each((n + kRows - 1) / kRows, kRows * cost,
                [&](int i) { f(i * kRows, std::min(kRows, n - i * kRows)); });
}

void scale(float* x, float factor, size_t n) {
  for (size_t i = 0; i < n; ++i) x[i] *= factor;
}

// m∘x, or x without dropout.
const float* dropped(const float* x, int N, int I, const LoraScratch& scratch, const LoraDropout& d) {
  if (d.dropout.p == 0) return x;
  std::memcpy(scratch.dropped, x, static_cast<size_t>(N) * I * sizeof(float));
  dropout_apply(scratch.dropped, d.dropout, d.layer, d.site, d.B, d.T, I);
  return scratch.dropped;
}

// low (N,r) = s·x aᵀ
void project(float* low, const float* x, const Lora& p, int N, int I) {
  gemm_nt(low, x, p.a, N, p.rank, I);
  scale(low, p.scale, static_cast<size_t>(N) * p.rank);
}

}  // namespace

LoraScratch declare_lora_scratch(Layout& layout, const Config& config, int N, int widest_input, bool backward) {
  LoraScratch s;
  if (config.lora_rank == 0) return s;
  s.low = layout.take("scratch.lora", Role::scratch, {N, config.lora_rank});
  if (!backward) return s;
  s.dlow = layout.take("scratch.lora_gradient", Role::scratch, {N, config.lora_rank});
  if (config.lora_dropout > 0) s.dropped = layout.take("scratch.lora_dropout", Role::scratch, {N, widest_input});
  return s;
}

// The columns of y that p adapts are not dense, hence gemm_serial.
void lora_forward(float* y, const float* x, const std::vector<Lora>& parts, const LinearShape& shape,
                  const LoraScratch& scratch, const LoraDropout& dropout) {
  if (parts.empty()) return;
  const int N = shape.N, I = shape.I;
  const size_t width = shape.O;
  x = dropped(x, N, I, scratch, dropout);
  for (const Lora& p : parts) {
    const size_t r = p.rank;
    project(scratch.low, x, p, N, I);
    for_pieces(N, p.out * r, [&](int n, int rows) {  // y += low bᵀ
      gemm_serial({y + n * width + p.begin, width}, {scratch.low + n * r, r, 1}, {p.b, 1, r}, rows, p.out,
                  p.rank, true);
    });
  }
}

void lora_backward(float* dx, const std::vector<Lora>& g, const float* dy, const float* x, const std::vector<Lora>& p,
                   const LinearShape& shape, const LoraScratch& scratch, const LoraDropout& dropout) {
  const int N = shape.N, I = shape.I;
  const size_t width = shape.O;
  for (size_t i = 0; i < p.size(); ++i) {
    const size_t r = p[i].rank;
    const float *read = dropped(x, N, I, scratch, dropout), *dy_part = dy + p[i].begin;
    project(scratch.low, read, p[i], N, I);
    if (g[i].b)
      for_pieces(p[i].out, N * r, [&](int o, int rows) {  // y = low bᵀ: db = dyᵀ low
        gemm_serial({g[i].b + o * r, r}, {dy_part + o, 1, width}, {scratch.low, r, 1}, rows, p[i].rank, N, true);
      });
    for_pieces(N, p[i].out * r, [&](int n, int rows) {  // dlow = s·dy b
      float* dlow = scratch.dlow + n * r;
      gemm_serial({dlow, r}, {dy_part + n * width, width, 1}, {p[i].b, r, 1}, rows, p[i].rank, p[i].out, false);
      scale(dlow, p[i].scale, rows * r);
    });
    if (g[i].a)  // low = x aᵀ: da = dlowᵀ x
      gemm_tn(g[i].a, scratch.dlow, read, p[i].rank, I, N, {.accumulate = true});
    if (dropout.dropout.p == 0) {
      gemm_nn(dx, scratch.dlow, p[i].a, N, I, p[i].rank, {.accumulate = true});
    } else {
      gemm_nn(scratch.dropped, scratch.dlow, p[i].a, N, I, p[i].rank);
      dropout_apply(scratch.dropped, dropout.dropout, dropout.layer, dropout.site, dropout.B, dropout.T, I);
      for_pieces(N, I, [&](int n, int rows) {
        const size_t begin = static_cast<size_t>(n) * I, end = begin + static_cast<size_t>(rows) * I;
        for (size_t k = begin; k < end; ++k) dx[k] += scratch.dropped[k];
      });
    }
  }
}

void lora_merge(float* weight, const std::vector<Lora>& parts, int I) {
  for (const Lora& p : parts) {
    const size_t n = static_cast<size_t>(p.out) * p.rank;
    const Buffer b = allocate(n);
    std::memcpy(b.get(), p.b, n * sizeof(float));
    scale(b.get(), p.scale, n);
    gemm_nn(weight + static_cast<size_t>(p.begin) * I, b.get(), p.a, p.out, I, p.rank, {.accumulate = true});
  }
}
