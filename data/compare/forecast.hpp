#pragma once
// Predicts how many runs a comparison has and how long they take.

#include <string>

#include "summary.hpp"

// Tuning may stop early, so each prediction is a range.
struct Forecast {
  size_t fewest_runs = 0, most_runs = 0;  // in total
  int64_t fewest_steps = 0, most_steps = 0;  // of a run
  double fewest_seconds = 0, most_seconds = 0;  // for the runs still to train; NaN if unknown
  bool at_peak = false;  // the seconds are a lower bound: all operations at the measured peak
  std::string measured;  // the cell whose steps were timed
};

// `c` must contain the trained runs. To measure the speed, takes a few steps of the largest model, unless all runs are
// trained, the comparison is --quiet, or the model is large.
Forecast forecast(const Comparison& c);

// "54 to 72 runs of 400 steps", or "of 700 to 800 steps"
std::string runs_text(const Forecast& f);

// "about 12:04 to 18:10, at the speed of a few steps of placement=post"; "" if unknown, or if all runs are trained.
std::string time_text(const Forecast& f);
