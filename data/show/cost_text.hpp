#pragma once
// The costs of a training step as tables for a reader.

#include <string>

#include "layers/model/config.hpp"

// Parameters, operations and memory, part by part, and what a step comes to with and without --recompute.
std::string cost_text(const Config& config, int B);
