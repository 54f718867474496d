#pragma once
// A learned factor on the output of each head, before o: HeadScale of NormFormer (Shleifer et al. 2021, arXiv
// 2110.09456).
//
//   x, y (N,H·D)   c (H), which starts at 1
//   forward   y[h] = c[h]·x[h]
//   backward  dx[h] = c[h]·dy[h]      dc[h] += Σ dy[h]·x[h] over the rows and the head's D numbers
//   saves     nothing: the caller still holds x
//
// (The paper's formula has the factors before o. fairseq's transformer_layer.py, 00b6434, has them after o, on H groups
// of D channels that belong to no head.)

#include "layers/residual/gain.hpp"

void head_scale_forward(float* y, const float* x, const Gain& c, int N, int H, int D);

// d holds dy before the call and dx after it.
void head_scale_backward(float* d, const Gain& dc, const float* x, const Gain& c, int N, int H, int D);
