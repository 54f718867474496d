#pragma once
// From the runs of a comparison to its cells.

#include <string>
#include <vector>

#include "result.hpp"
#include "statistics.hpp"

struct FinishedRun {
  PlannedRun plan;
  RunResult result;
  std::string command;
};

// Summary of a cell over its final-stage runs. Numbers are NaN unless all of these finished.
struct CellSummary {
  double tuned = RunResult::kUnknown;  // the value of --tune's option that was chosen
  bool at_edge = false;                // which is the lowest or highest that was tried
  int runs = 0, count[4] = {};         // of each RunState
  Estimate loss{}, difference{};       // of the final losses, and of their paired differences to the baseline's
  std::string verdict;                 // "baseline", "better", "worse", "not distinguishable"
  double best = RunResult::kUnknown, steps_to_target = RunResult::kUnknown, seconds_to_target = RunResult::kUnknown;
  double seconds = RunResult::kUnknown, tokens_per_second = RunResult::kUnknown;
  double loss_spikes = RunResult::kUnknown, grad_spikes = RunResult::kUnknown, clipped = RunResult::kUnknown;
  double lr_sensitivity = RunResult::kUnknown;
  size_t parameters = 0;
};

struct Comparison {
  Grid grid;
  std::string tuned_key;  // "" where nothing is tuned
  std::vector<double> tuning_grid;  // what every cell tried
  size_t baseline = 0;    // a cell
  double target = RunResult::kUnknown;
  double fewest_tokens = 0, most_tokens = 0;  // that a run trains on
  bool timed = true;
  std::vector<FinishedRun> runs;
  std::vector<CellSummary> cells;  // as the grid's
};

// Fills target and cells from the runs; the values that were chosen are there already.
void summarize(Comparison& comparison, double target);
