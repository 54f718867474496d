#pragma once
// Reads the result of a training run from its directory.

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "data/run_directory/history.hpp"

enum class RunState { finished, diverged, stuck, failed };
const char* name_of(RunState state);

struct RunResult {
  RunState state = RunState::failed;  // failed: no outcome, e.g. not enough memory or disk space
  int64_t stopped_at = 0;    // diverged: the step that was not finite, or since which the loss stayed too high
  std::string first_tensor;  // diverged: the first tensor with a NaN or an infinity
  double unigram = kUnknown, floor = kUnknown, flops = kUnknown;
  size_t parameters = 0;
  HistoryLine trained_by;  // the program that trained the last steps, and when it began

  double initial_loss = kUnknown, final_loss = kUnknown, final_train = kUnknown;
  double best_loss = kUnknown, best_step = kUnknown;
  double steps = 0, tokens = 0, seconds = kUnknown, tokens_per_second = kUnknown;
  double loss_spikes = kUnknown, grad_spikes = kUnknown, clipped = kUnknown;
  double pairs = kUnknown;  // share of --eval-pairs that is right
  double steps_to_target = kUnknown, seconds_to_target = kUnknown;  // summarize() fills them
  bool whole = false;   // final_loss is of the whole validation split
  std::vector<double> at_step, at_second, val_loss;                 // one value per validation

  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
};

// "diverged at step 12, first in block.3.ffn.y", "diverged from step 3, 7.1234", "finished, 2.3456"
std::string describe(const RunResult& result);

// Reads how the run ended from outcome.json, and the rest from metrics.csv. A run has diverged if a number was not
// finite, or if its final loss is more than 0.1 above both its first training loss and the unigram entropy. final_loss
// is the loss on the whole validation split, or else the last row's val_loss; unknown if that row has none. best_loss
// and val_loss are on --eval-batches. Leaves the times out unless `timed`.
RunResult read_result(const std::string& directory, bool timed);

// Returns the readable rows of the run's metrics.csv, with fields in the order of metrics::names.
std::vector<std::vector<std::string>> read_metrics(const std::string& directory);
