#pragma once
// The cost of a training step by formula, for readers: parameters, operations and activations of each part of the
// model. Training itself takes its numbers from layers/model/size.hpp.

#include <string>
#include <vector>

#include "layers/config/config.hpp"

// A number and its formula: "3·L·C² + 3·L·C". The letters are those of layers/README.md, and
//   K   keys that a query sees, on average over positions and layers
//   R   rows of logits that are held at a time
// Equal widths have one letter: C also stands for H·D if they are the same, and H for KV.
struct Amount {
  double number = 0;
  std::string formula;  // "" if the number is 0
};

struct PartCost {
  const char* name;        // "" for a role that counts with the role before it: v with qk
  Amount parameters{};     // trained ones
  Amount multiply_adds{};  // of matrix products, per token, forward; backward has twice as many
  Amount floats{};         // per token, kept in memory until backward; scratch and logits are shared by all blocks
  double intensity = 0;    // operations of the forward products per byte that they move at least
};

// One row for each Role, in their order. Each tensor counts in exactly one row.
std::vector<PartCost> cost_of_parts(const Config& config, int B);
