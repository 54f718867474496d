#pragma once
// The optimizers that a user can choose, each a list of rows.

#include <string_view>

#include "optimizer.hpp"

struct RunOptimizer {
  const char *name, *title;
  Optimizers rows;  // each takes the tensors that those before it leave
  double beta2 = 0, momentum = 0;  // with `nesterov`: defaults of the options that differ between optimizers
  bool nesterov = false;
  Optimizers rows_in_bf16 = {};  // the same with AdamW's moments in bf16; empty without AdamW

  // True if an update reads an option: &Optimizer::betas.
  bool reads(bool Optimizer::*option) const;
  Optimizers rows_with(NumberType moments) const;  // throws std::invalid_argument if there are none
};
std::span<const RunOptimizer> run_optimizers();  // the first is the default
const RunOptimizer& run_optimizer(std::string_view name);  // throws std::invalid_argument naming the nearest
