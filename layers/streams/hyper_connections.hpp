#pragma once
// The coefficients of hyper-connections (Zhu et al. 2024, arXiv 2409.19606, eq. 1 to 5, 10 to 13 and appendix J).
//
//   hyper_static  a coefficient is a constant
//   hyper         constant + scale·tanh(z), z = norm(x[s])·weightᵀ
//   backward      dconstant += Σ d      dscale += Σ d·tanh(z)      dz = scale·(1 − tanh²(z))·d

#include <string>

#include "stream_parameters.hpp"

void declare_hyper(Streams& p, Layout& layout, const Config& config, const std::string& prefix, int branch);

// Writes z for a branch that reads x (S,N,C). hyper_static has no z.
void hyper_read(const StreamsSaved& saved, const StreamsScratch& scratch, const float* x, const Streams& p, int N,
                int C, bool training);
void hyper_coefficients(float* coefficients, const float* z, const Streams& p, int N);

// scratch.d holds the gradients of the coefficients. Adds the gradient through z to d (S,N,C).
void hyper_read_backward(float* d, const Streams& g, const StreamsScratch& scratch, const float* x,
                         const StreamsSaved& saved, const Streams& p, int N, int C);
