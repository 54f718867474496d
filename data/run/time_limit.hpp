#pragma once
// Predicts how fast a run is and how long it takes, and implements --for: the run, with all work before and after its
// steps, ends when the time is up. A resumed run gets the time that its earlier steps left.

#include <limits>
#include <string>
#include <vector>

#include "trainer.hpp"

// Returns a line about the machine's measured peak, and one about the time of the run from step `first` on if it has
// more than a few steps; no lines if the run is quiet. A step takes `step_seconds`. If that is 0, times a few steps and
// leaves the trainer at its start.
std::vector<std::string> speed_and_time(Trainer& t, int64_t first, double step_seconds);

// Returns the seconds of a run from step `first` on, including validations, saves and its end. `step_seconds` is as
// above.
double seconds_of_run(Trainer& t, int64_t first, double step_seconds);

// Returns the floating-point operations of a run's steps, on all ranks.
double operations_of_run(const TrainOptions& options);

// True if a few steps of a run take little memory and time, so that a dry run may take them.
bool is_quickly_tried(const TrainOptions& options);

// Returns lines with the least time that a run takes, computed from its operations without running the model. With
// --for, sets the most steps that fit.
std::vector<std::string> predicted_time(TrainOptions& options, int64_t first, int ranks);

class TimeLimit {
 public:
  // Without --for there is no limit. Otherwise times a few steps and chooses slightly more steps than fit, because the
  // number can only shrink later. Leaves the trainer at its start.
  explicit TimeLimit(Trainer& t);

  // Call before each step. When a tenth of the time is left, begins the cool-down and sets the last step by the speed
  // so far. When the time is up, ends the run. Returns true if the number of steps has changed.
  bool shorten(Trainer& t, int64_t step);

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  double start_ = 0, cool_down_ = kNever, end_ = kNever;  // seconds since the process began
  int64_t first_ = 0;
};
