#pragma once
// The optimizers that a user can choose: lists of rows.

#include "optimizer.hpp"

// With the defaults of the options that differ between optimizers.
enum class OptimizerKind { adamw, sgd, lion, muon, normuon };
struct RunOptimizer {
  OptimizerKind kind;
  const char* name;
  Optimizers rows;
  double beta2, momentum;
  bool nesterov;
};
const RunOptimizer& run_optimizer(OptimizerKind kind);
