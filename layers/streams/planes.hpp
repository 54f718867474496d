#pragma once
// Loops and constants that the rules of several streams share.

#include <cstddef>
#include <type_traits>

#include "layers/kernels/parallel.hpp"
#include "stream_parameters.hpp"

// The floats of a plane (N,C). Stream s begins s planes after the first.
inline size_t plane(int N, int C) { return static_cast<size_t>(N) * C; }

// Calls f(count) with S as a compile-time constant, so that the loops over streams unroll.
template <int most = kMostStreams, class F>
void with_count(int S, F f) {
  if constexpr (most > 1)
    if (S < most) return with_count<most - 1>(S, f);
  f(std::integral_constant<int, most>());
}

// The same, and f also gets the number of kinds of coefficients (stream_parameters.hpp).
template <class F>
void with_kinds(const Streams& p, F f) {
  with_count(p.count, [&](auto count) {
    if (p.kinds == 3) return f(count, std::integral_constant<int, 3>());
    if (p.kinds == 2) return f(count, std::integral_constant<int, 2>());
    f(count, std::integral_constant<int, 1>());
  });
}

// Like with_count(), and f also gets whether the streams mix with each other.
template <class F>
void with_carry(const Streams& p, F f) {
  with_count(p.count, [&](auto count) { p.kinds == 3 ? f(count, std::true_type()) : f(count, std::false_type()); });
}

// Calls f(k) for each of K coefficients, on one thread each.
template <class F>
void each_coefficient(int K, int N, F f) {
  parallel_each(K, 8 * static_cast<size_t>(N), f);
}

inline double sum_of(const float* x, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

// A multiple of every W, so that the same rows share a vector for any number of threads.
constexpr int kRowsTogether = 64;
