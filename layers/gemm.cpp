// The scheme of BLIS (Van Zee & van de Geijn 2015): a panel of A and one of B are packed so that the innermost
// loop reads both from consecutive memory, and that loop, the register tile, does nothing but multiply and add:
//
//   for jc in N by NC                 a slice of B's columns
//     for pc in K by KC               ... and of the inner dimension: packed into panels NR wide
//       for ic in M by MC             a block of A's rows: packed into panels MR high
//         for each NR panel of B      (stays in L1)
//           for each MR panel of A    (streams from L2)
//             tile: MR × NR sums in registers over KC
//
// Edges are packed with zeros, so there is one tile and no special case in it.

#include "gemm.hpp"

#include <algorithm>

#include "parallel.hpp"
#include "simd.hpp"
#include "tensors.hpp"

namespace {

using simd::Vec;
using simd::W;

// MR × NR sums plus two vectors of B and one of A must fit into the registers: 32 of them on AVX-512 and NEON,
// 16 elsewhere.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int MR = 12;
#else
constexpr int MR = 6;
#endif
constexpr int NR = 2 * W;
constexpr int KC = 256;             // a KC × NR panel of B fills about half of L1
constexpr int MC = 40 * MR;         // an MC × KC block of A fills about half of L2
constexpr int NC = 96 * NR;         // a KC × NC slice of B stays in L3

struct Workspace {
  Buffer a, b;
  Workspace(int rows, int columns)
      : a(allocate(static_cast<size_t>(rows) * KC)), b(allocate(static_cast<size_t>(columns) * KC)) {}
};

struct Product {
  float* c;
  size_t ldc;
  MatrixView a, b;
  int M, N, K;
  GemmOptions options;
};

// c (MR, NR) = [c +] a b over kc steps; a holds MR floats a step, b NR.
template <bool kAccumulate>
inline void tile(float* c, size_t ldc, const float* a, const float* b, int kc) {
  Vec sum[MR][2] = {};
  for (int k = 0; k < kc; ++k, a += MR, b += NR) {
    const Vec b0 = simd::load(b), b1 = simd::load(b + W);
    for (int i = 0; i < MR; ++i) {
      sum[i][0] += a[i] * b0;
      sum[i][1] += a[i] * b1;
    }
  }
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < 2; ++j) {
      float* p = c + i * ldc + j * W;
      simd::store(p, kAccumulate ? simd::load(p) + sum[i][j] : sum[i][j]);
    }
}

// Packs `lines` ≤ P lines of kc elements each: to[k·P + i] = line i at step k, zeros in the missing lines.
// For A a line is a row, for B a column; `line` and `step` are the distances in memory.
template <int P>
void pack(float* to, const float* from, size_t line, size_t step, int lines, int kc) {
  if (lines == P && line == 1) {
    for (int k = 0; k < kc; ++k)
      for (int i = 0; i < P; ++i) to[k * P + i] = from[k * step + i];
    return;
  }
  for (int i = 0; i < lines; ++i)
    for (int k = 0; k < kc; ++k) to[k * P + i] = from[i * line + k * step];
  for (int i = lines; i < P; ++i)
    for (int k = 0; k < kc; ++k) to[k * P + i] = 0;
}

// One tile of C, cut to what is inside C. The first slice of K starts from the bias or, where it accumulates,
// from C; all others add.
void write_tile(const Product& p, int i0, int j0, const float* a, const float* b, int kc, bool first) {
  const int rows = std::min(MR, p.M - i0), columns = std::min(NR, p.N - j0);
  float* c = p.c + i0 * p.ldc + j0;
  const bool add = !first || p.options.accumulate;
  const float* bias = first ? p.options.bias : nullptr;
  if (rows == MR && columns == NR && !bias) {
    add ? tile<true>(c, p.ldc, a, b, kc) : tile<false>(c, p.ldc, a, b, kc);
    return;
  }
  alignas(64) float t[MR * NR];
  tile<false>(t, NR, a, b, kc);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      float& out = c[i * p.ldc + j];
      out = t[i * NR + j] + (add ? out : 0) + (bias ? bias[j0 + j] : 0);
    }
}

int panels(int n, int width) { return (n + width - 1) / width; }

// share(n, f) runs f(begin, end) over [0, n), split among the calling threads, and waits for all of them.
template <class Share>
void multiply(const Product& p, const Workspace& work, int mc, int nc, Share share) {
  for (int jc = 0; jc < p.N; jc += nc)
    for (int pc = 0; pc < p.K; pc += KC) {
      const int columns = std::min(nc, p.N - jc), kc = std::min(KC, p.K - pc);
      const int b_panels = panels(columns, NR);
      for (int ic = 0; ic < p.M; ic += mc) {
        const int rows = std::min(mc, p.M - ic), a_panels = panels(rows, MR);
        const int b_todo = ic == 0 ? b_panels : 0;
        share(a_panels + b_todo, [&](int begin, int end) {
          for (int q = begin; q < end; ++q)
            if (q < a_panels)
              pack<MR>(work.a.get() + static_cast<size_t>(q) * MR * kc,
                       p.a.data + (ic + q * MR) * p.a.row + pc * p.a.col, p.a.row, p.a.col,
                       std::min(MR, rows - q * MR), kc);
            else
              pack<NR>(work.b.get() + static_cast<size_t>(q - a_panels) * NR * kc,
                       p.b.data + pc * p.b.row + (jc + (q - a_panels) * NR) * p.b.col, p.b.col, p.b.row,
                       std::min(NR, columns - (q - a_panels) * NR), kc);
        });
        share(a_panels * b_panels, [&](int begin, int end) {
          for (int t = begin; t < end; ++t) {
            const int j = t / a_panels, i = t % a_panels;
            write_tile(p, ic + i * MR, jc + j * NR, work.a.get() + static_cast<size_t>(i) * MR * kc,
                       work.b.get() + static_cast<size_t>(j) * NR * kc, kc, pc == 0);
          }
        });
      }
    }
}

void multiply_parallel(const Product& p) {
  static const Workspace work(MC, NC);
  if (static_cast<size_t>(p.M) * p.N * p.K < 4 * kWorthSharing || max_threads() == 1) {
    multiply(p, work, MC, NC, [](int n, auto f) { f(0, n); });
    return;
  }
#pragma omp parallel
  multiply(p, work, MC, NC, [](int n, auto f) {
#ifdef _OPENMP
    const long long thread = omp_get_thread_num(), threads = omp_get_num_threads();
#else
    const long long thread = 0, threads = 1;
#endif
    f(static_cast<int>(n * thread / threads), static_cast<int>(n * (thread + 1) / threads));
#pragma omp barrier
  });
}

size_t wide(int n) { return static_cast<size_t>(n); }

}  // namespace

void gemm_nt(float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options) {
  multiply_parallel({c, wide(N), {a, wide(K), 1}, {b, 1, wide(K)}, M, N, K, options});
}

void gemm_nn(float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options) {
  multiply_parallel({c, wide(N), {a, wide(K), 1}, {b, wide(N), 1}, M, N, K, options});
}

void gemm_tn(float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options) {
  multiply_parallel({c, wide(N), {a, 1, wide(M)}, {b, wide(N), 1}, M, N, K, options});
}

void gemm_serial(float* c, size_t ldc, MatrixView a, MatrixView b, int M, int N, int K, bool accumulate) {
  constexpr int kRows = 8 * MR, kColumns = 4 * NR;
  thread_local const Workspace work(kRows, kColumns);
  multiply({c, ldc, a, b, M, N, K, {nullptr, accumulate}}, work, kRows, kColumns,
           [](int n, auto f) { f(0, n); });
}
