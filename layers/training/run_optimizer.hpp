#pragma once
// The optimizers that a user can choose: lists of rows.

#include "optimizer.hpp"

enum class OptimizerKind { adamw, sgd, lion, adafactor, muon, normuon };
struct RunOptimizer {
  OptimizerKind kind;
  const char* name;
  Optimizers rows;
  double beta2, momentum;  // with `nesterov`: defaults of the options that differ between optimizers
  bool nesterov;
};
std::span<const RunOptimizer> run_optimizers();
const RunOptimizer& run_optimizer(OptimizerKind kind);
