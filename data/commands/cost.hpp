#pragma once
// Derives the cost of a training step as formulas for readers: parameters, operations and activations of each part of
// the model. Training itself uses layers/model/size.hpp.

#include <string>
#include <vector>

#include "layers/config/config.hpp"

// A number and its formula: "3·L·C² + 3·L·C". The letters are defined in layers/README.md, except
//   K   keys that a query sees, on average over positions and layers
//   R   rows of logits that are in memory at a time
// Equal widths share a letter: C also stands for H·D if they are equal, and H for KV.
struct Amount {
  double number = 0;
  std::string formula;  // "" if the number is 0
};

struct PartCost {
  const char* name;        // "" for a role that counts with the role before it: v with qk
  Amount parameters{};     // those that are trained
  Amount multiply_adds{};  // in matrix products, per token, forward; backward has twice as many
  Amount floats{};         // per token, kept until backward; all blocks share scratch and logits
  double intensity = 0;    // operations of the forward products per byte; a byte counts once
};

// Returns one row for each Role, in order. Each tensor counts in exactly one row.
std::vector<PartCost> cost_of_parts(const Config& config, int B);
