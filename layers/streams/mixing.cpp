#include "mixing.hpp"

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"
#include "planes.hpp"

using simd::all;
using simd::load;
using simd::multiply_add;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

// The coefficients of row n, of all streams.
template <int S>
struct RowCoefficients {
  float read[S], carry[S][S], write[S];

  RowCoefficients(const float* coefficients, int n, int N, float skip) {
    for (int s = 0; s < S; ++s) {
      const float* of = coefficients + static_cast<size_t>(s) * (S + 2) * N + n;
      read[s] = of[0];
      write[s] = of[static_cast<size_t>(S + 1) * N];
      for (int t = 0; t < S; ++t) carry[s][t] = skip * of[static_cast<size_t>(1 + t) * N];
    }
  }
};

size_t mixing_work(int S, int C) { return static_cast<size_t>(S) * (S + 2) * C / 2; }

}  // namespace

// ---- reading -----------------------------------------------------------------------------------------------------

void read_streams(float* h, const float* coefficients, const float* x, int S, int N, int C) {
  with_count(S, [&](auto count) {
    parallel_each(N, plane(S, C), [&](size_t n) {
      const RowCoefficients<count> k(coefficients, n, N, 1);
      const float* row = x + plane(n, C);
      sweep(C, [&](int c, int lanes) {
        Vec sum = {};
        for (int s = 0; s < count; ++s)
          sum = multiply_add(sum, all(k.read[s]), load(row + s * plane(N, C) + c, lanes));
        store(h + plane(n, C) + c, sum, lanes);
      });
    });
  });
}

void read_streams_backward(float* d, float* dcoefficients, const float* coefficients, const float* dh, const float* x,
                           int S, int N, int C) {
  with_count(S, [&](auto count) {
    parallel_each(N, 2 * plane(S, C), [&](size_t n) {
      const RowCoefficients<count> k(coefficients, n, N, 1);
      Vec dread[count] = {};
      sweep(C, [&](int c, int lanes) {
        const size_t at = plane(n, C) + c;
        const Vec dy = load(dh + at, lanes);
        for (int s = 0; s < count; ++s) {
          float* dx = d + s * plane(N, C) + at;
          dread[s] = multiply_add(dread[s], dy, load(x + s * plane(N, C) + at, lanes));
          store(dx, multiply_add(load(dx, lanes), all(k.read[s]), dy), lanes);
        }
      });
      for (int s = 0; s < count; ++s)
        dcoefficients[static_cast<size_t>(s) * (count + 2) * N + n] = static_cast<float>(simd::sum(dread[s]));
    });
  });
}

// ---- writing -----------------------------------------------------------------------------------------------------

void write_streams(float* y, const float* coefficients, const float* x, const float* f, const Streams& p, int N,
                   int C) {
  const float skip = p.skip;
  with_count(p.count, [&](auto count) {
    constexpr int S = count;
    parallel_each(N, mixing_work(S, C), [&](size_t n) {
      const RowCoefficients<S> k(coefficients, n, N, skip);
      sweep(C, [&](int c, int lanes) {
        const size_t at = plane(n, C) + c;
        const Vec added = load(f + at, lanes);
        Vec in[S];
        for (int s = 0; s < S; ++s) in[s] = load(x + s * plane(N, C) + at, lanes);
        for (int t = 0; t < S; ++t) {
          Vec sum = k.write[t] * added;
          for (int s = 0; s < S; ++s) sum = multiply_add(sum, all(k.carry[s][t]), in[s]);
          store(y + t * plane(N, C) + at, sum, lanes);
        }
      });
    });
  });
}

void write_streams_backward(float* d, float* df, const StreamsScratch& scratch, const float* x, const float* f,
                            const Streams& p, int N, int C) {
  const float skip = p.skip;
  with_count(p.count, [&](auto count) {
    constexpr int S = count;
    parallel_each(N, 2 * mixing_work(S, C), [&](size_t n) {
      const RowCoefficients<S> k(scratch.coefficients, n, N, skip);
      Vec dcarry[S][S] = {}, dwrite[S] = {};
      sweep(C, [&](int c, int lanes) {
        const size_t at = plane(n, C) + c;
        const Vec added = load(f + at, lanes);
        Vec dy[S], sum = {};
        for (int t = 0; t < S; ++t) {
          dy[t] = load(d + t * plane(N, C) + at, lanes);
          sum = multiply_add(sum, all(k.write[t]), dy[t]);   // y[t] = ... + write[t]·f
          dwrite[t] = multiply_add(dwrite[t], dy[t], added);  // y[t] = ... + write[t]·f
        }
        store(df + at, sum, lanes);
        for (int s = 0; s < S; ++s) {  // y[t] = skip·Σₛ carry[s,t]·x[s] + ...
          const Vec in = load(x + s * plane(N, C) + at, lanes);
          Vec dx = {};
          for (int t = 0; t < S; ++t) {
            dx = multiply_add(dx, all(k.carry[s][t]), dy[t]);
            dcarry[s][t] = multiply_add(dcarry[s][t], dy[t], in);
          }
          store(d + s * plane(N, C) + at, dx, lanes);
        }
      });
      for (int s = 0; s < S; ++s) {
        float* of = scratch.d + static_cast<size_t>(s) * (S + 2) * N + n;
        for (int t = 0; t < S; ++t)
          of[static_cast<size_t>(1 + t) * N] = skip * static_cast<float>(simd::sum(dcarry[s][t]));
        of[static_cast<size_t>(S + 1) * N] = static_cast<float>(simd::sum(dwrite[s]));
      }
    });
  });
}
