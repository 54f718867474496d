#pragma once
// A training run in memory: model, data, optimizer state, and one optimizer step.

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint.hpp"
#include "data/text/dataset.hpp"
#include "diagnostics_csv.hpp"

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
  double first_loss = std::numeric_limits<double>::quiet_NaN();  // of this call's first step

  Trainer(const Command& given, const TrainOptions& in_force, Dataset text);

  StepRows rows_of(int64_t step) const { return {o.data_seed, uint64_t(step), uint64_t(o.batch) * o.accumulate}; }
  bool validates() const { return o.eval_every > 0 && !data.val.empty(); }
  int final_sample_length() const { return std::min(600, 2 * model.config.context); }
  std::string path(const std::string& file) const { return o.out + "/" + file; }
};

// Sets weights and moments to what they are before the first step of this call.
void go_to_start(Trainer& t);

struct StepResult {
  double loss, grad_norm;
  bool clipped;
  int64_t tokens;  // targets that counted
};

// Takes one step, counted from 0, at rate `lr`. Throws Diverged if the loss or the gradient is not finite.
StepResult train_step(Trainer& t, int64_t step, double lr);

// True once --patience validations in a row brought no new best. Decided by the step and the best one alone, so a run
// that is resumed stops where it would have.
bool out_of_patience(const Trainer& t, int64_t step);

// The model has exploded if its loss on the last batch is more than ten times the first loss of this call and that of
// uniform guessing. Such a state must not replace an earlier checkpoint. False before the first step.
bool has_exploded(const Trainer& t);

// Writes the state to `file` of the run's directory. Throws Diverged if weights or moments are not finite.
void save(Trainer& t, const std::string& file, int64_t step);
