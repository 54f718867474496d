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

// The coefficients of row n, of all streams. Without carry, a stream goes on with the factor skip.
template <int S, bool carries_streams>
struct RowCoefficients {
  static constexpr bool carries = carries_streams;
  float read[S], carry[S][S], write[S], skip;

  RowCoefficients(const float* coefficients, int n, int N, const Streams& p) : skip(p.skip) {
    for (int s = 0; s < S; ++s) {
      const float* of = coefficients + plane(s * p.per_stream(), N) + n;
      read[s] = of[0];
      write[s] = of[plane(p.per_stream() - 1, N)];
      for (int t = 0; t < S && carries; ++t) carry[s][t] = skip * of[plane(1 + t, N)];
    }
  }
};

size_t mixing_work(const Streams& p, int C) { return plane(p.coefficients(), C) / 2; }

}  // namespace

// ---- reading -----------------------------------------------------------------------------------------------------

void read_streams(float* h, const float* coefficients, const float* x, const Streams& p, int N, int C) {
  with_count(p.count, [&](auto count) {
    parallel_each(N, plane(count, C), [&](size_t n) {
      const RowCoefficients<count, false> k(coefficients, n, N, p);
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

namespace {

// dx[s] = read[s]·dh, added to d or not. dh may be the first plane of d.
template <bool adds>
void read_backward(float* d, const StreamsScratch& scratch, const float* dh, const float* x, const Streams& p, int N,
                   int C) {
  with_count(p.count, [&](auto count) {
    parallel_each(N, 2 * plane(count, C), [&](size_t n) {
      const RowCoefficients<count, false> k(scratch.coefficients, n, N, p);
      Vec dread[count] = {};
      sweep(C, [&](int c, int lanes) {
        const size_t at = plane(n, C) + c;
        const Vec dy = load(dh + at, lanes);
        for (int s = 0; s < count; ++s) {
          float* dx = d + s * plane(N, C) + at;
          dread[s] = multiply_add(dread[s], dy, load(x + s * plane(N, C) + at, lanes));
          store(dx, adds ? multiply_add(load(dx, lanes), all(k.read[s]), dy) : k.read[s] * dy, lanes);
        }
      });
      for (int s = 0; s < count; ++s)
        scratch.d[plane(s * p.per_stream(), N) + n] = static_cast<float>(simd::sum(dread[s]));
    });
  });
}

}  // namespace

void read_streams_backward(float* d, const StreamsScratch& scratch, const float* dh, const float* x, const Streams& p,
                           int N, int C) {
  read_backward<true>(d, scratch, dh, x, p, N, C);
}

void read_end_backward(float* d, const StreamsScratch& scratch, const float* x, const Streams& p, int N, int C) {
  read_backward<false>(d, scratch, d, x, p, N, C);
}

// ---- writing -----------------------------------------------------------------------------------------------------

void write_streams(float* y, const float* coefficients, const float* x, const float* f, const Streams& p, int N,
                   int C) {
  with_carry(p, [&](auto count, auto carries) {
    constexpr int S = count;
    parallel_each(N, mixing_work(p, C), [&](size_t n) {
      const RowCoefficients<S, carries> k(coefficients, n, N, p);
      sweep(C, [&](int c, int lanes) {
        const size_t at = plane(n, C) + c;
        const Vec added = load(f + at, lanes);
        Vec in[S];
        for (int s = 0; s < S; ++s) in[s] = load(x + s * plane(N, C) + at, lanes);
        for (int t = 0; t < S; ++t) {
          Vec sum = k.write[t] * added;
          if constexpr (k.carries)
            for (int s = 0; s < S; ++s) sum = multiply_add(sum, all(k.carry[s][t]), in[s]);
          else sum = multiply_add(sum, all(k.skip), in[t]);
          store(y + t * plane(N, C) + at, sum, lanes);
        }
      });
    });
  });
}

void write_streams_backward(float* d, float* df, const StreamsScratch& scratch, const float* x, const float* f,
                            const Streams& p, int N, int C) {
  with_carry(p, [&](auto count, auto carries) {
    constexpr int S = count;
    parallel_each(N, 2 * mixing_work(p, C), [&](size_t n) {
      const RowCoefficients<S, carries> k(scratch.coefficients, n, N, p);
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
        for (int s = 0; s < S && !k.carries; ++s)  // y[t] = skip·x[t] + ...
          store(d + s * plane(N, C) + at, k.skip * dy[s], lanes);
        for (int s = 0; s < S && k.carries; ++s) {  // y[t] = skip·Σₛ carry[s,t]·x[s] + ...
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
        float* of = scratch.d + plane(s * p.per_stream(), N) + n;
        for (int t = 0; t < S && k.carries; ++t)
          of[plane(1 + t, N)] = k.skip * static_cast<float>(simd::sum(dcarry[s][t]));
        of[plane(p.per_stream() - 1, N)] = static_cast<float>(simd::sum(dwrite[s]));
      }
    });
  });
}
