#pragma once
// The cost of a training step part by part, for readers: parameters, operations and activations. Training itself takes
// its numbers from layers/model/size.hpp.

#include <vector>

#include "layers/config/config.hpp"
#include "layers/config/tensors.hpp"

struct PartCost {
  Role role;
  const char* name;          // "" for a role that counts with the role before it: v with qk
  double parameters = 0;     // trained ones
  double multiply_adds = 0;  // of matrix products, per token, forward; backward has twice as many
  double floats = 0;         // per token, kept in memory until backward; scratch and logits are shared by all blocks
  double intensity = 0;      // operations of the forward products per byte that they move at least
};

// One row for each Role, in their order. Each tensor counts in exactly one row.
std::vector<PartCost> cost_of_parts(const Config& config, int B);
