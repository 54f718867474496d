#pragma once
//   x (N,C)   gain (C)   bias (C) or none   y (N,C)   running_mean, running_var (C)
//   BatchNorm  (Ioffe & Szegedy 2015, arXiv 1502.03167, algorithm 1): a channel is normalized over all N = B·T rows
//     forward   y = gain·x̂ + bias      x̂ = (x − μ)·r      r = (var + eps)^-½      μ, var (biased) over the rows
//     backward  dbias += Σₙ dy         dgain += Σₙ dy·x̂
//               dx = gain·r·(dy − mean(dy) − x̂·mean(dy·x̂))                         means over the rows
//               running ← .9·running + .1·(μ, var·N/(N − 1))                        as in PyTorch
//   evaluation  the forward pass with the running statistics instead of μ and var
//   saves       μ and var of each channel
//
// Backward updates the running statistics, because it runs once per micro-batch, while forward runs twice with
// recomputation. They are untrained tensors of the model. Each micro-batch has its own batch statistics, over all of
// its tokens: if a row holds several examples, they share the statistics, as rows do.
//
// BatchNorm leaks in a language model: μ and var also run over time, so in training the output at position t depends on
// later tokens, which the model is to predict. Evaluation uses the running statistics, which differ from a batch's.
// Statistics also vary much more between batches of tokens than between batches of images (Shen et al. 2020, arXiv
// 2003.07845). Transformers have used LayerNorm from the start (Vaswani et al. 2017). BatchNorm is here for study.

#include <cmath>

#include "norm_parameters.hpp"

inline constexpr float kMomentum = .1f;

// Updates a running statistic. `part` is the batch's statistic times kMomentum. If `running` is 0, returns exactly
// `part`.
inline float add_to_running(float running, float part) { return std::fma(1 - kMomentum, running, part); }

void batchnorm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);
void batchnorm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                        const Norm& p, int N, int C);
