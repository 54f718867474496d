#pragma once
// A model as JSON, for the page to draw.

#include <vector>

#include <nlohmann/json.hpp>

#include "layers/config/config.hpp"
#include "layers/config/tensors.hpp"

// The parts of each block in order, under their names in statistics and in the table of tensors.
nlohmann::ordered_json draw_layers(const Config& config);

// Name, layer (null outside of the blocks), part and shape of each tensor.
nlohmann::ordered_json describe_tensors(const std::vector<TensorSpec>& table);
