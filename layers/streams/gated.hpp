#pragma once
// Gated residual (Qwen4ExpTextGatedResidual of transformers 5.24): every stream is normalized with a gain of its own,
// and a branch reads a mean of them in which each channel has a gate. A layer of low rank computes the gates from all
// streams.
//
//   x (S,N,C)   h (N,C)   weight (r + S, S·C)   up (S·C, r)   v = norms[s](x[s])
//   forward   z = weight·v/S      u = silu(z[0 ... r−1])      G = σ(up·u) (S·C)
//             h = 1/S·Σₛ G[s] ⊙ v[s]      write = 2σ(z[r ...])
//   backward  dv[s] = dh ⊙ G[s]/S        dG[s] = dh ⊙ v[s]/S        da = dG ⊙ G ⊙ (1 − G)
//             dup += da·uᵀ      du = upᵀ·da      dz = du ⊙ silu'(z), for write dz = dwrite·2σ(1 − σ)
//             dweight += dz·vᵀ/S      dv += weightᵀ·dz/S      dx[s] += norms[s]'(dv[s])
//   saves     z, and the statistics of the norms
//
// At the end of a stack there is no write: weight is (r, S·C).

#include <string>

#include "stream_parameters.hpp"

// Multiply-adds per token of weight and up.
double multiply_adds_of_gates(const Streams& p, int C);

void declare_gated(Streams& p, Layout& layout, const Config& config, const std::string& prefix);
void declare_gated_saved(StreamsSaved& saved, Layout& layout, const Config& config, const std::string& prefix,
                         const Streams& p, int N);

// Writes h, and what backward needs.
void gated_read(const StreamsSaved& saved, const StreamsScratch& scratch, float* h, const float* x, const Streams& p,
                const StreamRows& rows);
// Writes write[s] of each stream. There are no coefficients for reading.
void gated_coefficients(float* coefficients, const float* z, const Streams& p, int N);

// scratch.d holds the gradients of write, if there is one. Adds to d (S,N,C). At the end of a stack it overwrites d,
// whose first plane is dh.
void gated_read_backward(float* d, const Streams& g, const StreamsScratch& scratch, const float* dh, const float* x,
                         const StreamsSaved& saved, const Streams& p, const StreamRows& rows);
