#pragma once
// The cost of a training step as tables for readers.

#include <string>

#include "layers/config/config.hpp"
#include "layers/config/tensors.hpp"

// Parameters, operations and memory of each part, and the totals of a step with and without --recompute.
std::string cost_text(const Config& config, int B, const std::vector<TensorSpec>& table);
