#pragma once
// A training run in memory: what its steps change, its data, and what surrounds a step.

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint.hpp"
#include "data/text/dataset.hpp"
#include "data/host/progress.hpp"
#include "diagnostics_csv.hpp"
#include "metrics.hpp"
#include "layers/training/step.hpp"

struct Trainer : TrainingState {
  Command command;  // with the options as they were given
  TrainOptions o;   // and as they are in force
  Dataset data;
  CheckpointHeader state;
  MetricsRow row;            // of the newest step
  bool within_step = false;  // weights may be of one step and `state` of another
  std::unique_ptr<Diagnostics> diagnostics;  // once training begins
  double first_loss = std::numeric_limits<double>::quiet_NaN();  // of this call's first step

  Trainer(const Command& given, const TrainOptions& in_force, Dataset text);

  bool validates() const { return o.eval_every > 0 && !data.val.empty(); }
  int final_sample_length() const { return std::min(600, 2 * model.config.context); }
  std::string path(const std::string& file) const { return o.out + "/" + file; }
};

// Sets weights and optimizer state to what they are before the first step of this call.
void go_to_start(Trainer& t);

// The rows of a step, counted from 0, and its micro-batches. Keeps a reference to the data.
StepRows rows_of(const TrainOptions& o, int64_t step);
MicroBatches micro_batches(const Dataset& data, const TrainOptions& o, int64_t step);

// training_step() on the run's data, with its diagnostics.
StepResult take_step(Trainer& t, int64_t step, double lr);

// True once --patience validations in a row brought no new best. Decided by the step and the best one alone, so a run
// that is resumed stops where it would have.
bool out_of_patience(const Trainer& t, int64_t step);

// The model has exploded if its loss on the last batch is more than ten times the first loss of this call and that of
// uniform guessing. Such a state must not replace an earlier checkpoint. False before the first step.
bool has_exploded(const Trainer& t);

// Writes the state to `file` of the run's directory. Throws Diverged if weights or optimizer state are not finite.
void save(Trainer& t, const std::string& file, int64_t step);

// Saves the newest state, unless the model has exploded. Returns whether it has saved.
bool save_sound(Trainer& t, Progress& progress, int64_t step);

// Saves what a run has reached when it cannot go on, for example because the disk is full, and throws a
// std::runtime_error that says so. The checkpoint keeps the row of metrics.csv if that could not be written.
[[noreturn]] void save_and_fail(Trainer& t, const Metrics& metrics, const std::runtime_error& error);

void write_config(const Trainer& t);
