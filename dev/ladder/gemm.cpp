// The ladder of the matrix product: the forward pass of a linear layer, y = x wᵀ, from the textbook's loops to gemm_nt.
// Then both products of its backward pass, dx = dy w and dw = dyᵀ x, to gemm_nn and gemm_tn.
//
//   x (M,K)   w (N,K)   y (M,N)      M rows, K inputs, N outputs
//
// In the textbook, each y[m,n] is a separate sum: each addition waits for the previous one, and it uses one of the W
// floats in a register.

#include "layers/kernels/gemm.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>

#include "ladder.hpp"
#include "layers/kernels/simd.hpp"
#include "layers/textbook/linear.hpp"

namespace {

using simd::load;
using simd::Vec;
constexpr size_t W = simd::W;

struct Sizes {
  size_t M, N, K;
};

// Vectors. Rows of x and of w both run along k, so W products at a time are added to W independent sums. At the end the
// W sums are added.
void vectors(float* y, const float* x, const float* w, const Sizes& s) {
  for (size_t m = 0; m < s.M; ++m)
    for (size_t n = 0; n < s.N; ++n) {
      Vec sum = {};
      for (size_t k = 0; k < s.K; k += W) sum += load(x + m * s.K + k) * load(w + n * s.K + k);
      y[m * s.N + n] = static_cast<float>(simd::sum(sum));
    }
}

constexpr size_t kRows = 4, kVectors = 3;  // the register tile: 12 sums and the operands fit in AVX2's 16 registers

// A register tile. 4 rows of x times 3 rows of w are 12 sums in registers. While one waits for its last multiply-add
// the others continue, and 12 multiply-adds need 7 loads instead of 24.
void register_tile(float* y, const float* x, const float* w, const Sizes& s) {
  for (size_t n = 0; n < s.N; n += kVectors)
    for (size_t m = 0; m < s.M; m += kRows) {
      Vec sum[kRows][kVectors] = {};
      for (size_t k = 0; k < s.K; k += W)
#pragma GCC unroll 4
        for (size_t i = 0; i < kRows; ++i)
#pragma GCC unroll 3
          for (size_t j = 0; j < kVectors; ++j)
            sum[i][j] += load(x + (m + i) * s.K + k) * load(w + (n + j) * s.K + k);
#pragma GCC unroll 4
      for (size_t i = 0; i < kRows; ++i)
#pragma GCC unroll 3
        for (size_t j = 0; j < kVectors; ++j) y[(m + i) * s.N + n + j] = static_cast<float>(simd::sum(sum[i][j]));
    }
}

// Packing. The remaining cost is the end of every sum, where W lanes are added one by one. Instead, let the lanes be W
// columns of y: a number of x is broadcast to all lanes, and w is read by columns. The columns are copied into a packed
// panel that all rows of x read from consecutive memory, for any layout of w. (With 4 lanes and no broadcast
// instruction, this rung may be slower than the previous one.)
constexpr size_t kPanel = kVectors * W;  // columns

void pack(float* panel, const float* w, size_t K) {
  for (size_t j = 0; j < kPanel; ++j)
    for (size_t k = 0; k < K; ++k) panel[k * kPanel + j] = w[j * K + k];
}

using Sums = Vec[kRows][kVectors];

inline void step(Sums& sum, const float* x, const float* panel, size_t k, size_t K) {
#pragma GCC unroll 4
  for (size_t i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (size_t j = 0; j < kVectors; ++j) sum[i][j] += x[i * K + k] * load(panel + k * kPanel + j * W);
}

inline void finish(float* y, const Sums& sum, size_t N) {
#pragma GCC unroll 4
  for (size_t i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (size_t j = 0; j < kVectors; ++j) simd::store(y + i * N + j * W, sum[i][j]);
}

void packed_tile(float* y, const float* x, const float* panel, const Sizes& s) {
  Sums sum = {};
  for (size_t k = 0; k < s.K; ++k) step(sum, x, panel, k, s.K);
  finish(y, sum, s.N);
}

template <auto tile>
void packing(float* y, const float* x, const float* w, const Sizes& s) {
  const Tensor panel(s.K * kPanel);
  for (size_t n = 0; n < s.N; n += kPanel) {
    pack(panel.get(), w + n * s.K, s.K);
    for (size_t m = 0; m < s.M; m += kRows) tile(y + m * s.N + n, x + m * s.K, panel.get(), s);
  }
}

// Fewer loads. A step of the tile takes 12 multiply-adds and could do with 7 loads: 4 numbers of x, 3 vectors of the
// panel. But a multiply-add may read an operand from memory, and GCC makes each of them load its vector of the panel:
// 16 loads. A processor that starts two multiply-adds and two loads per cycle then waits for loads. If the loop is
// unrolled, GCC keeps the vectors of the panel in registers.
void unrolled_tile(float* y, const float* x, const float* panel, const Sizes& s) {
  Sums sum = {};
#pragma GCC unroll 4
  for (size_t k = 0; k < s.K; ++k) step(sum, x, panel, k, s.K);
  finish(y, sum, s.N);
}

// Rounded to bfloat16 (the upper half of a float's bits), to nearest even.
Tensor rounded(const Tensor& t) {
  Tensor out(t.size);
  for (size_t i = 0; i < t.size; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(t.buffer[i]);
    out.buffer[i] = std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
  }
  return out;
}

std::vector<double> in_double(const Tensor& x, const Tensor& w, const Sizes& s) {
  std::vector<double> y(s.M * s.N);
  textbook::linear_forward<double>(y.data(), x.widen().data(), w.widen().data(), nullptr, {s.M, s.K, s.N});
  return y;
}

double flops(const Sizes& s) { return 2. * static_cast<double>(s.M * s.N * s.K); }

std::string title(const char* what, const Sizes& s) {
  return std::string(what) + ", M " + std::to_string(s.M) + ", N " + std::to_string(s.N) + ", K " +
         std::to_string(s.K);
}

void forward(const Sizes& s, Ceiling ceiling) {
  const int M = static_cast<int>(s.M), N = static_cast<int>(s.N), K = static_cast<int>(s.K);
  const Tensor tx(s.M * s.K, 1), tw(s.N * s.K, 2), ty(s.M * s.N);
  float *x = tx.get(), *w = tw.get(), *y = ty.get();
  const std::vector<double> want = in_double(tx, tw, s);

  Ladder ladder(title("gemm_nt: y = x wᵀ", s), flops(s), "FLOP", ceiling, {{ty, want}});
  ladder.rung("textbook", Threads::one, [&] { textbook::linear_forward<float>(y, x, w, nullptr, {s.M, s.K, s.N}); });
  ladder.rung("vectors: W sums beside each other", Threads::one, [&] { vectors(y, x, w, s); });
  ladder.rung("register tile: 12 vectors of sums at once", Threads::one, [&] { register_tile(y, x, w, s); });
  ladder.rung("packing: lanes are columns, panels are consecutive", Threads::one,
              [&] { packing<packed_tile>(y, x, w, s); });
  ladder.rung("fewer loads: unrolled, a vector is loaded once", Threads::one,
              [&] { packing<unrolled_tile>(y, x, w, s); });
  // The product takes matrices of any size: edges have their own tiles, whose last vectors are stored with a mask. It
  // packs by transposing W × W squares in registers, which counts if x has few rows, and cuts matrices into blocks that
  // stay in the caches, which counts if they are large. With 32 registers (AVX-512, NEON) its tile has 8 rows.
  ladder.rung("the product on one thread", Threads::one,
              [&] { gemm_serial({y, s.N}, {x, s.K, 1}, {w, 1, s.K}, M, N, K, false); });
  // Each thread owns a rectangle of y, so threads wait for each other only at the end.
  ladder.rung("threads: a rectangle of y each (gemm_nt)", Threads::all, [&] { gemm_nt(y, x, w, M, N, K); });
  if (!gemm_has_bf16()) return;
  // One instruction multiplies pairs of bf16 numbers, two products per lane. Whether that is faster depends on how
  // often the processor can start one. The textbook gets the same rounded operands, so the error is only the product's,
  // and the share is of the bf16 peak.
  const std::vector<double> want_rounded = in_double(rounded(tx), rounded(tw), s);
  ladder.compare_with(flops_ceiling(Matmul::bf16), {{ty, want_rounded}});
  ladder.rung("bf16: two products a lane (share, error: of bf16)", Threads::all,
              [&] { gemm_nt(y, x, w, M, N, K, {.matmul = Matmul::bf16}); });
}

// Loop order. The textbook's dx[m,k] = Σₙ dy[m,n] w[n,k] reads down a column of w, each number on another cache line.
// With n outside and k inside, the innermost loop runs along rows of dx and w, its elements are independent, and the
// compiler vectorizes it. (dw = dyᵀ x has this order already.)
void loop_order(float* dx, float* dw, const float* dy, const float* x, const float* w, const Sizes& s) {
  std::fill_n(dx, s.M * s.K, 0.f);
  for (size_t m = 0; m < s.M; ++m)
    for (size_t n = 0; n < s.N; ++n)
      for (size_t k = 0; k < s.K; ++k) dx[m * s.K + k] += dy[m * s.N + n] * w[n * s.K + k];
  for (size_t m = 0; m < s.M; ++m)
    for (size_t n = 0; n < s.N; ++n)
      for (size_t k = 0; k < s.K; ++k) dw[n * s.K + k] += dy[m * s.N + n] * x[m * s.K + k];
}

void backward(const Sizes& s, Ceiling ceiling) {
  const int M = static_cast<int>(s.M), N = static_cast<int>(s.N), K = static_cast<int>(s.K);
  const Tensor tx(s.M * s.K, 1), tw(s.N * s.K, 2), tdy(s.M * s.N, 3), tdx(s.M * s.K), tdw(s.N * s.K);
  float *x = tx.get(), *w = tw.get(), *dy = tdy.get(), *dx = tdx.get(), *dw = tdw.get();
  std::vector<double> want_dx(tdx.size), want_dw(tdw.size);
  textbook::linear_backward<double>(want_dx.data(), want_dw.data(), nullptr, tdy.widen().data(), tx.widen().data(),
                                    tw.widen().data(), {s.M, s.K, s.N});

  Ladder ladder(title("gemm_nn and gemm_tn: dx = dy w and dw = dyᵀ x", s), 2 * flops(s), "FLOP", ceiling,
                {{tdx, want_dx}, {tdw, want_dw}});
  ladder.rung("textbook", Threads::one, [&] {
    tdw.fill(0);
    textbook::linear_backward<float>(dx, dw, nullptr, dy, x, w, {s.M, s.K, s.N});
  });
  ladder.rung("loop order: the innermost loop walks along memory", Threads::one, [&] {
    tdw.fill(0);
    loop_order(dx, dw, dy, x, w, s);
  });
  const auto product = [&] {
    gemm_nn(dx, dy, w, M, K, N);
    gemm_tn(dw, dy, x, N, K, M);
  };
  // The following rungs are those above: after packing, the layout of the operands does not matter.
  ladder.rung("the product on one thread: all of the above", Threads::one, product);
  ladder.rung("threads: a rectangle each (gemm_nn, gemm_tn)", Threads::all, product);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<int> sizes = sizes_from(argc, argv, "M N K", {256, 768, 768});
  const Sizes s{static_cast<size_t>(sizes[0]), static_cast<size_t>(sizes[1]), static_cast<size_t>(sizes[2])};
  if (s.M % kRows || s.N % kPanel || s.K % W) {  // to stay short, the rungs in between do not handle edges
    std::fprintf(stderr, "M must be a multiple of %zu, N of %zu and K of %zu\n", kRows, kPanel, W);
    return 2;
  }
  const Ceiling ceiling = flops_ceiling();
  forward(s, ceiling);
  backward(s, ceiling);
  return Ladder::exit_status();
}
