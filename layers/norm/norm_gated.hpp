#pragma once
//   x (N,C)   gain (C)   bias (C) or none   down (rank,C)   up (C,rank)   y (N,C)
//   GatedNorm  (Qiu et al. 2026, arXiv 2601.22966): RMSNorm, and a gate that reads its whole row
//     forward   v = RMSNorm(x)     a = v downᵀ     s = SiLU(a)     z = s upᵀ     y = σ(z) ⊙ v
//     backward  dz = dy ⊙ v ⊙ σ(z)(1 − σ(z))     dup += dzᵀ s     ds = dz up
//               da = ds ⊙ SiLU'(a)               ddown += daᵀ v
//               dv = dy ⊙ σ(z) + da down         dx, dgain and dbias are RMSNorm's for dv
//     SiLU(a) = a·σ(a)     SiLU'(a) = σ(a) + a·σ(a)(1 − σ(a))
//   saves      r of each row; v, a and z are computed again
//
// The gain is inside the gate, there are no biases in it, and nothing doubles σ: y starts near v/2. So computes A.X K2
// (SK Telecom 2026, its class in transformers). The products are always float.

#include "norm_parameters.hpp"

void gatednorm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);
void gatednorm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                        const Norm& p, int N, int C);
