#pragma once
// A training run in memory: the state that steps change, its data, and how it is saved and validated.

#include <algorithm>
#include <future>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "data/host/progress.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/run_directory/diagnostics_csv.hpp"
#include "data/run_directory/directory.hpp"
#include "data/run_directory/metrics.hpp"
#include "data/text/dataset.hpp"
#include "layers/model/size.hpp"
#include "layers/training/step.hpp"
#include "multiple_choice.hpp"
#include "step_inputs.hpp"

struct Trainer : TrainingState {
  Command command;  // with the options as the user gave them
  Dataset data;
  std::vector<Question> pairs;  // of --eval-pairs
  CheckpointHeader state;  // with the options in force
  MetricsRow row;            // the newest step's row
  bool within_step = false;  // true: weights and `state` may belong to different steps
  std::unique_ptr<Diagnostics> diagnostics;  // null until training begins
  MicroBatches batches = {};  // of the newest step
  double first_loss = std::numeric_limits<double>::quiet_NaN();  // loss of this call's first step
  // Valid while another thread writes checkpoint.safetensors or best.safetensors. A checkpoint that names a best step
  // is written after that best.safetensors.
  std::shared_future<void> saving, saving_best;
  std::pair<double, int64_t> best_before;  // loss and step of the best.safetensors that saving_best replaces

  // A run goes on from `start`: the header of its checkpoint, or one of step 0, with the options in force.
  Trainer(const Command& given, const CheckpointHeader& start, Dataset text, std::shared_ptr<Group> ranks);

  const TrainOptions& options() const { return state.options; }
  bool validates() const { return eval_every(options()) > 0 && !data.val.empty(); }
  int64_t batches_per_validation() const;
  bool measures_whole_validation(int64_t steps) const;  // at the end of a run of this many steps
  // Documents may be short, so a sample has three.
  int sample_texts() const { return data.packing == Packing::stream ? 1 : 3; }
  // The most tokens of a sample, over all its texts.
  int sample_length() const { return std::min(kSampleTokens, sample_texts() * model.config.context); }
  std::string path(const std::string& file) const { return options().out + "/" + file; }
};

// Sets weights and optimizer state to their values before the first step of this call, on all ranks. Returns a line
// about norms in which the model differs from --init-from's, or "".
std::string go_to_start(Trainer& t);

// Throws std::invalid_argument if the run is finished, unless its final validation was interrupted.
void require_work(const Trainer& t);

void write_config(const Trainer& t);

// ---- steps -----------------------------------------------------------------------------------------------

// Calls training_step() on the run's data, with its diagnostics, on all ranks. Leaves within_step true.
StepResult take_step(Trainer& t, int64_t step, double lr);

// ---- validation ------------------------------------------------------------------------------------------

// Measures the loss on --eval-batches into `row`, prints it, and saves the weights of a new best. Ctrl-C stops it and
// leaves `row` unchanged. Throws Diverged if the loss is not finite.
void validate(Trainer& t, Progress& progress, MetricsRow& row);

// Measures a run after its last step and save: first like validate(), then on the whole validation split if that is
// small enough. Returns false if the user stops it.
bool measure_end(Trainer& t, Metrics& metrics, Progress& progress, RunOutcome& outcome);

// Measures --eval-pairs with the weights of the last step. Returns false if the user stops it.
bool measure_pairs(const Trainer& t, RunOutcome& outcome);

// True once --patience validations in a row brought no new best. This depends only on the step and the best step, so a
// resumed run stops at the same step.
bool out_of_patience(const Trainer& t, int64_t step);

// ---- saving ----------------------------------------------------------------------------------------------

// Saves the newest state and returns true. If the model has exploded, keeps the last checkpoint and returns false. If
// training `goes_on` and there is memory for a copy, another thread writes that copy.
bool save_sound(Trainer& t, Progress& progress, int64_t step, bool goes_on = false);

// Waits for the other thread. Throws std::runtime_error if it could not write its file. check_saving() does not wait.
void finish_saving(Trainer& t);
void check_saving(Trainer& t);

// Saves a run that cannot continue, for example because the disk is full, and throws std::runtime_error that says so.
// If the row of metrics.csv could not be written, the checkpoint keeps it.
[[noreturn]] void save_and_fail(Trainer& t, const Metrics& metrics, const std::runtime_error& error);
