#pragma once
// The cost of a training step as tables for readers.

#include <string>

#include "layers/config/config.hpp"
#include "layers/config/tensors.hpp"

// Returns parameters, operations and memory of each part, and a step's totals with and without --recompute.
std::string cost_text(const Config& config, int B, const std::vector<TensorSpec>& table);
