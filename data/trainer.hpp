#pragma once
// A training run in memory: model, data, optimizer state, and one optimizer step.

#include <memory>
#include <string>
#include <vector>

#include "checkpoint.hpp"
#include "dataset.hpp"
#include "diagnostics.hpp"

struct Trainer {
  Command command;  // with the options as they were given
  TrainOptions o;   // and as they are in force
  Dataset data;
  Model model;
  Activations activations;
  Moments moments;
  std::vector<int> tokens, targets;  // one micro-batch (B,T)
  CheckpointHeader state;
  std::unique_ptr<Diagnostics> diagnostics;  // once training begins

  Trainer(const Command& given, const TrainOptions& in_force, Dataset text);

  StepRows rows_of(int64_t step) const { return {o.data_seed, uint64_t(step), uint64_t(o.batch) * o.accumulate}; }
  std::string path(const std::string& file) const { return o.out + "/" + file; }
};

// Sets weights and moments to what they are before the first step of this call.
void go_to_start(Trainer& t);

struct StepResult {
  double loss, grad_norm;
  bool clipped;
  int64_t tokens;  // targets that counted
};

// Takes one step, counted from 0. Throws Diverged if the loss or the gradient is not finite.
StepResult train_step(Trainer& t, int64_t step, double lr);

// True once --patience validations in a row brought no new best. Decided by the step and the best one alone, so a run
// that is resumed stops where it would have.
bool out_of_patience(const Trainer& t, int64_t step);

// Writes the state to `file` of the run's directory.
void save(Trainer& t, const std::string& file, int64_t step);
