#pragma once
// The arithmetic of two streams, of which norm_sum acts on the first alone: ResiDual's end, and SiameseNorm.
//
//   x, y (2,N,C)   h, f (N,C)
//   forward   h = x[0] + norm(x[1])      y[0] = skip·x[0] + first_write·f
//   backward  dx[1] += norm'(dh)

#include "stream_parameters.hpp"

// Writes h and returns it.
const float* read_two(float* h, const NormSaved& saved, const float* x, const Norm& norm, const StreamRows& rows);
// Adds norm'(dh) to the second plane of d. dh is overwritten.
void read_second_backward(float* d, const Norm& g, float* dh, const float* x, const NormSaved& saved, const Norm& norm,
                          const StreamRows& rows);

// Writes y[0], which may be x[0].
void write_first(float* y, const float* x, const float* f, const Streams& p, const StreamRows& rows);
