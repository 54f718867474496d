#pragma once
// Predicts how many runs a comparison has and how long they take.

#include <string>
#include <vector>

#include "summary.hpp"

// Tuning may stop early, so each prediction is a range.
struct Forecast {
  size_t fewest_runs = 0, most_runs = 0;  // in total
  int64_t fewest_steps = 0, most_steps = 0;  // of a run
  double fewest_flops = 0, most_flops = 0;      // in total
  double fewest_seconds = 0, most_seconds = 0;  // for the runs still to train; NaN if unknown
  std::vector<double> run_flops, run_seconds;   // of a run of each cell
  bool at_peak = false;  // the seconds are a lower bound: all operations at the measured peak
  std::string measured;  // the cell whose steps were timed
  size_t sizes = 1;      // models whose steps were timed, one for each size
};

// `c` must contain the trained runs. To measure the speed, takes a few steps of the largest model of each size, unless
// all runs are trained, the comparison is --quiet, or a model is large.
Forecast forecast(const Comparison& c);

// "54 to 72 runs of 400 steps", or "of 700 to 800 steps"
std::string runs_text(const Forecast& f);

// "about 12 min 4 s to 18 min 10 s, at the speed of a few steps of placement=post"; "" if unknown, or if all runs are
// trained.
std::string time_text(const Forecast& f);

// "1.2e+14 to 1.5e+14 FLOPs"
std::string flops_text(const Forecast& f);
