#pragma once
// z = weight·xᵀ, from which coefficients come: a matrix product with few rows, in fp32.
//
//   hyper   x (S,N,C)   weight (S + 2, C) of all streams     z (S, S + 2, N): each stream has rows of its own
//   others  x (S,N,C)   weight (K, S·C)                      z (K,N), summed over the streams; gated: rank + K rows

#include "stream_parameters.hpp"

void project(float* z, const float* x, const Streams& p, int N, int C);
// dweight += dz·x. Null: the weight does not train.
void project_backward_weight(float* dweight, const float* dz, const float* x, const Streams& p, int N, int C);
// dx = dzᵀ·weight, or added to it
void project_backward(float* dx, const float* dz, const Streams& p, int N, int C, bool accumulate);
