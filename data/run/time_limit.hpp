#pragma once
// How fast a run is, how long it takes, and --for: a run that ends, with all work before and after its steps, when the
// time is up. A resumed run has the time that its earlier steps have left.

#include <limits>
#include <string>
#include <vector>

#include "trainer.hpp"

// The measured peak of the machine and the time of a run from step `first` on if that has more than a few steps, a line
// each; none if it is quiet. A step takes `step_seconds`; 0: times a few steps and leaves the trainer at its start.
std::vector<std::string> speed_and_time(Trainer& t, int64_t first, double step_seconds);

// The seconds of a run from step `first` on, with validations, saves and its end. `step_seconds` is as above.
double seconds_of_run(Trainer& t, int64_t first, double step_seconds);

// Floating-point operations of the steps of a run, on all ranks.
double operations_of_run(const TrainOptions& options);

// True if a few steps of a run take little memory and time, so that a dry run may take them.
bool is_quickly_tried(const TrainOptions& options);

// What a run takes at least, by its arithmetic alone: nothing of the model runs. With --for, sets the steps that fit at
// most.
std::vector<std::string> predicted_time(TrainOptions& options, int64_t first, int ranks);

class TimeLimit {
 public:
  // Without --for there is no limit. Otherwise times a few steps and chooses the number of steps: a little more than
  // fits, because it can only shrink later. Leaves the trainer at its start.
  explicit TimeLimit(Trainer& t);

  // Call before each step. When a tenth of the time is left, it begins the cool-down and fixes the last step by the
  // speed so far; when the time is up, it ends the run. Returns true if the number of steps has changed.
  bool shorten(Trainer& t, int64_t step);

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  double start_ = 0, cool_down_ = kNever, end_ = kNever;  // of the steps, in seconds since the process began
  int64_t first_ = 0;
};
