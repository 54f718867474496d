#pragma once
// The optimizers that a user can choose, each a list of rows.

#include "optimizer.hpp"

enum class OptimizerKind { adamw, sgd, lion, adafactor, muon, normuon };
struct RunOptimizer {
  OptimizerKind kind;
  const char* name;
  Optimizers rows;
  double beta2, momentum;  // defaults of options that differ between optimizers, like `nesterov`
  bool nesterov;
};
std::span<const RunOptimizer> run_optimizers();
const RunOptimizer& run_optimizer(OptimizerKind kind);
