#pragma once
// Elementwise loops over matrices (N,C).

#include <cstddef>

#include "simd.hpp"

// out = scale·a + b. out may be a or b.
void scaled_add(float* out, float scale, const float* a, const float* b, int N, int C);

// Adds `row` (C) to each row of x.
void add_to_rows(float* x, const float* row, int N, int C);

// x = factor·x. A factor of 1 costs nothing.
void scale_rows(float* x, float factor, int N, int C);

// Copies N rows of C floats, which start from_stride floats apart, to rows that start to_stride floats apart.
void copy_rows(float* to, size_t to_stride, const float* from, size_t from_stride, int N, int C);
void copy_rows(float* to, const float* from, int N, int C);  // without gaps

// Writes n floats as numbers of this type, from number `first` of the matrix `to` on.
void round_to(NumberType type, float* to, size_t first, const float* from, size_t n);

// x[0..n) = the n numbers of this type, of 16 bits, in the second half of x.
void widen(NumberType type, float* x, size_t n);

// x = cap·tanh(scale·x/cap) for n floats, on one thread. Unless `slopes` is null, it receives 1 − tanh², the factor on
// the gradient.
inline void soft_cap(float* x, float* slopes, float scale, float cap, int n) {
  simd::sweep(n, [=](int i, int lanes) {
    const simd::Vec t = simd::tanh(simd::load(x + i, lanes) * (scale / cap));
    simd::store(x + i, t * cap, lanes);
    if (slopes) simd::store(slopes + i, 1.f - t * t, lanes);
  });
}
