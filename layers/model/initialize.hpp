#pragma once
// The weights before training.

#include <cstdint>
#include <vector>

#include "model.hpp"

// Draws every tensor from (seed, its name), so that adding a tensor does not change the others. Then normalizes normed
// weights, and lets a forward pass decide the gains on Admin's skip paths (profile.hpp).
void initialize(Model& model, uint64_t seed);

// Draws these tensors of its table only.
void initialize(Model& model, uint64_t seed, const std::vector<TensorSpec>& tensors);
