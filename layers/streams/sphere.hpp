#pragma once
// nGPT's residual path (Loshchilov et al. 2024, arXiv 2410.01131): the stream is a point on the unit sphere. A branch
// moves it toward the branch's output by a learned share of the way, the *eigen learning rate* α of each channel.
//
//   x, f, y (N,C)   weight a (C), which starts at C^-½      α = |a|·√C·α₀
//   forward   y = s/‖s‖      s = x̂ + α ⊙ (f̂ − x̂)      x̂ = x/‖x‖      f̂ = f/‖f‖             a row of zeros stays 0
//   backward  ds = (dy − y·⟨y, dy⟩)/‖s‖
//             df̂ = α ⊙ ds              df = (df̂ − f̂·⟨f̂, df̂⟩)/‖f‖
//             dx̂ = ds − df̂             dx = (dx̂ − x̂·⟨x̂, dx̂⟩)/‖x‖
//             da += sign(a)·√C·α₀·Σₙ ds ⊙ (f̂ − x̂)
//   saves     nothing: the caller still holds x and f, from which backward computes s again
//
// The paper writes x for x̂: x has length 1 already, unless it is the embedding. The authors' code (NVIDIA/ngpt,
// ed19eb2) has x̂, and so the skip path passes no gradient along the embedding.

#include "stream_parameters.hpp"

// Declares a of a branch, and sets α's factor.
void declare_sphere(Streams& p, Layout& layout, const Config& config, const std::string& prefix);

// y may be x.
void sphere_write(float* y, const float* x, const float* f, const Streams& p, int N, int C);

// d holds dy before the call and what the skip path passes on after it. Writes df. sums (row_blocks(N),C) gets the
// gradient of α, summed over blocks of rows.
void sphere_write_backward(float* d, float* df, float* sums, const float* x, const float* f, const Streams& p, int N,
                           int C);
// Adds the gradient of a.
void sphere_rate_backward(float* da, const float* sums, const Streams& p, int N, int C);
