#pragma once
//   x (N,C)   gain (C)   bias (C) or none   y (N,C)
//   LayerNorm  (Ba et al. 2016, arXiv 1607.06450)
//     forward   y = gain·x̂ + bias       x̂ = (x − μ)·r      r = (var + eps)^-½      μ, var over the C of a row
//     backward  dx = r·(dx̂ − mean(dx̂) − x̂·mean(dx̂·x̂))      dx̂ = dy·gain
//   RMSNorm  (Zhang & Sennrich 2019, arXiv 1910.07467): the same without the mean
//     forward   x̂ = x·r                r = (mean(x²) + eps)^-½
//     backward  dx = r·(dx̂ − x̂·mean(dx̂·x̂))
//   both       dgain += Σₙ dy·x̂      dbias += Σₙ dy
//   saves      μ and r of each row; the caller still holds x
//   With a unit offset the gain is 1 + w, and w starts at 0: Gemma (2024), its code; the report does not mention it.
//   A norm without a gain has gain = 1: OLMo (Groeneveld et al. 2024, arXiv 2402.00838), nanochat.

#include "norm_parameters.hpp"

void row_norm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);
void row_norm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                       const Norm& p, int N, int C);
