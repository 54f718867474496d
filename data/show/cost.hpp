#pragma once
// What a training step costs, part by part and by formula: bytes and floating-point operations. For readers; the numbers
// that training itself needs are in layers/model/size.hpp.

#include <string>
#include <vector>

#include "layers/model/config.hpp"

// A number, and the formula that it is the value of: "3·L·C² + 3·L·C". The letters are those of layers/README.md, and
//   K   keys that a query sees, on average over positions and layers
//   R   rows of logits that are there at a time
// What the wiring makes equal has one letter: C stands for H·D too where they are the same, and H for KV.
struct Amount {
  double number = 0;
  std::string formula;  // "" where the number is 0
};

enum class CostPart {
  embedding, norms, gains, qkv, attention, o, up, activation, down, residual, classifier, scratch, logits
};

// What a part of the model has, and what it does in a step.
struct PartCost {
  const char* name;
  Amount parameters{};     // that are trained
  Amount multiply_adds{};  // of matrix products, for each token, forward; backward has twice as many
  Amount floats{};         // for each token, that lie in memory until backward; of scratch and logits, that all blocks share
  double intensity = 0;  // operations of a forward product for each byte that it has to move at least
};

// One row for each CostPart, in their order: what there is to train, to calculate and to keep, with each tensor in one row.
std::vector<PartCost> cost_of_parts(const Config& config, int B);
