#pragma once
// One run of a comparison, as its directory tells it.

#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/options/grid.hpp"

enum class Stage { tune, final };  // one seed with every value of --tune; every seed with the cell's best

// A run to be made. Everything about it is known before it begins.
struct PlannedRun {
  Stage stage = Stage::final;
  size_t cell = 0;                 // index into the grid's cells
  std::string seed;
  std::optional<double> tuned;     // value of --tune's option
  std::string directory;           // below the comparison's
  std::vector<std::string> words;  // of `train`, without --out
  std::string label;               // "placement=post,norm=layernorm  seed=1"
  int64_t steps = 0;
};

enum class RunState { finished, diverged, stuck, failed };
const char* name_of(RunState state);

struct RunResult {
  RunState state = RunState::failed;  // the process ended without an outcome: no memory, no space on the disk, ...
  int64_t stopped_at = 0;       // diverged: the step that was not finite, or from which on the loss stayed too high
  std::string first_tensor;     // diverged: the first with a NaN or an infinity
  double unigram = kUnknown, floor = kUnknown;
  size_t parameters = 0;

  double initial_loss = kUnknown, final_loss = kUnknown, final_train = kUnknown;
  double best_loss = kUnknown, best_step = kUnknown;
  double steps = 0, tokens = 0, seconds = kUnknown, tokens_per_second = kUnknown;
  double loss_spikes = kUnknown, grad_spikes = kUnknown, clipped = kUnknown;
  std::vector<double> at_step, at_second, val_loss;  // each validation

  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
};

// Within this of the unigram entropy a model has learned how often each token occurs and nothing else.
inline constexpr double kStuckWithin = 0.02;

// Believes outcome.json about how a run ended, and takes what it can from metrics.csv. A run has diverged if a number was
// not finite, or if it ends above both its first training loss and the unigram entropy. final_loss is on the whole
// validation split, or else what the last row has; best_loss and val_loss are on --eval-batches. The times are left out
// unless `timed`.
RunResult read_result(const std::string& directory, bool timed);

// The rows of its metrics.csv that can be read, their fields in the order of metrics::names.
std::vector<std::vector<std::string>> read_metrics(const std::string& directory);
