#pragma once
// A learned factor on the output of each head, before o: HeadScale of NormFormer (Shleifer et al. 2021, arXiv
// 2110.09456).
//
//   x, y (N,H·D)   c (H), which starts at 1
//   forward   y[h] = c[h]·x[h]
//   backward  dx[h] = c[h]·dy[h]      dc[h] += Σ dy[h]·x[h], over the rows and the D numbers of the head
//   saves     nothing: the caller still holds x
//
// (fairseq's transformer_layer.py, 00b6434, has these factors behind o, on H groups of D channels that belong to no
// head. The paper's formula has them before.)

#include "layers/residual/gain.hpp"

void head_scale_forward(float* y, const float* x, const Gain& c, int N, int H, int D);

// d holds dy and then dx.
void head_scale_backward(float* d, const Gain& dc, const float* x, const Gain& c, int N, int H, int D);
