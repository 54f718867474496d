#pragma once
// The coefficients of mHC: manifold-constrained hyper-connections (Xie et al. 2025, arXiv 2512.24880, eq. 7 to 9). Of
// independent hyper-connections, which have no carry (HYV4HyperConnection of transformers). And of the learned read at
// the end of a stack, which has no write either (DeepseekV4HyperHead and HYV4HyperHead).
//
//   forward   z = weight·x/rms(x), over all S·C numbers of a row      a = scale·z + bias
//             read = σ(a) + eps      write = 2σ(a), independent: + eps      carry = Sinkhorn-Knopp(exp a)
//   backward  dbias += Σ da      dscale += Σ da·z      dz = scale·da
//             with r = 1/rms(x):  dx += r·weightᵀ·dz − r²/(S·C)·(Σ dz·z)·x

#include <string>

#include "stream_parameters.hpp"

// p has the number of streams and of kinds.
void declare_mhc(Streams& p, Layout& layout, const Config& config, const std::string& prefix);

// Writes z and rstd for a branch that reads x (S,N,C).
void mhc_read(const StreamsSaved& saved, const float* x, const Streams& p, int N, int C);
void mhc_coefficients(float* coefficients, const float* z, const Streams& p, int N);

// scratch.d holds the gradients of the coefficients. Adds the gradient through z to d (S,N,C).
void mhc_read_backward(float* d, const Streams& g, const StreamsScratch& scratch, const float* x,
                       const StreamsSaved& saved, const Streams& p, int N, int C);
