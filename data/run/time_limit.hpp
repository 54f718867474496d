#pragma once
// How long a run takes, and --for: a run that ends, with all work before and after its steps, when the time is up.

#include <limits>

#include "trainer.hpp"

// Prints how long a run of more than a few steps will take, at the speed of a few steps now. Leaves the trainer at its
// start.
void print_expected_time(Trainer& t);

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
