#pragma once
// How many runs a comparison has, and how long they take: predicted before the first.

#include <string>

#include "summary.hpp"

// Tuning may stop early, so there is a lowest and a highest number.
struct Forecast {
  size_t fewest_runs = 0, most_runs = 0;   // in all
  double fewest_seconds = 0, most_seconds = 0;  // of those to train; NaN: unknown
  bool at_peak = false;  // the seconds are by arithmetic alone, at the measured peak: a lower bound
  std::string measured;  // the cell whose steps were timed
};

// `c` knows the runs that are trained already. Takes a few steps of its largest model, unless all are trained, the
// comparison is --quiet or the model is large.
Forecast forecast(const Comparison& c);

// "54 to 72 runs"
std::string runs_text(const Forecast& f);

// "about 12:04 to 18:10, at the speed of a few steps of placement=post"; "" if that is unknown, or all is trained.
std::string time_text(const Forecast& f);
