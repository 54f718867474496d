#pragma once
//   x (N,C)   gain (C)   bias (C) or none   alpha, shift (1)   y (N,C)
//   element by element, without statistics: large numbers saturate, small ones pass
//   DyT   (Zhu et al. 2025, arXiv 2503.10622)    f(u) = tanh u    u = alpha·x            alpha starts at ½
//   Derf  (Chen et al. 2025, arXiv 2512.10938)   f(u) = erf u     u = alpha·x + shift    alpha at ½, shift at 0
//     forward   y = gain·f(u) + bias
//     backward  du = dy·gain·f'(u)     dx = alpha·du     dalpha += Σ du·x     dshift += Σ du       over all N·C
//               dgain += Σₙ dy·f(u)    dbias += Σₙ dy
//     tanh' = 1 − tanh²                erf' = 2/√π·e^(−u²)
//   saves      nothing: the caller still holds x
//
// The language model that Derf's authors published starts alpha at 1, for DyT as well, and multiplies the embedding by
// a learned scalar that starts at √C.

#include "norm_parameters.hpp"

void pointwise_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);
void pointwise_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                        const Norm& p, int N, int C);
