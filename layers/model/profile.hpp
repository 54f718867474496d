#pragma once
// The initial gains on skip paths of Admin (Liu et al. 2020, arXiv 2004.08249, §4; the authors' code,
// LiyuanLucasLiu/Transformer-Clinic, fairseq/modules/transformer_layer.py), which depend on a forward pass.
//
//   ω₁ = 1      ωₖ₊₁² = Var[skip·ωₖ ⊙ xₖ] + Var[oₖ]         for the branches k of a stack, in order
//
// The variances are over all elements: x is the stream that branch k reads, o what it adds. All elements of an ω start
// equal. x is a norm's output with a variance of 1, except before the first branch. So ωₖ² = Var[x₁] + Σ Var[oⱼ] over
// j < k: the variance that the stream of Pre-LN has after these branches. An encoder and a decoder both begin with 1.
//
// The depth parametrization multiplies branches by a factor b = base depth/depth, of which there are 1/b times as many.
// There Var[oₖ]/b takes the place of Var[oₖ], so that ω is that of the base model at the same relative depth.

#include <cstdint>

#include "model.hpp"

// Writes every ω of the model from a pass with this dropout. The activations are those of training. Does nothing if the
// model has none.
void profile_skip_gains(Model& model, const Activations& activations, const Batch& batch, const Dropout& dropout);

// The same with the model's dropout and about 1000 random tokens, whose frequencies follow Zipf's law. So the start is
// a function of the model and the seed alone. The authors take a batch of the text. Factors of a warm-up count as 1.
void profile_skip_gains(Model& model, uint64_t seed);

// Returns the floats of that pass's activations; 0 if a model with this table has no ω.
size_t profile_floats(const Config& config, const std::vector<TensorSpec>& table);
