#pragma once
// Weight vectors of length 1: the matrices of nGPT (Loshchilov et al. 2024, arXiv 2410.01131). Every vector of C
// numbers that meets the stream gets the length 1 again after each step.
//
//   rows      w[i,:] ← w[i,:]/‖w[i,:]‖      of the token embedding (V,C), the classifier (V,C), q, k, v (·,C), gate and
//                                           up (F,C): what multiplies the stream
//   columns   w[:,j] ← w[:,j]/‖w[:,j]‖      of o (C,H·D) and down (C,F): what is added to the stream
//
// A vector of zeros stays 0. The optimizer's state does not change, and these matrices do not decay.

#include "layers/config/config.hpp"
#include "layers/config/tensors.hpp"

enum class UnitVectors { none, rows, columns };

// Returns which vectors of a tensor have length 1: none unless config.normed_weights is set.
UnitVectors unit_vectors(const TensorSpec& spec, const Config& config);

// w (rows,cols)
void normalize_vectors(float* w, UnitVectors vectors, int rows, int cols);

// Normalizes all tensors of a model. Ranks and threads compute the same bits.
void normalize_weights(float* weights, const std::vector<TensorSpec>& table, const Config& config);
