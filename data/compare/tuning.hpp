#pragma once
// The search for the best values of --tune's options, separately for each cell.
//
// A cell first trains with every combination of the values that the user gave. Then it tries the neighbors of the best
// point: for each option the next lower and the next higher value, also beyond those given. It repeats this until no
// neighbor is better, or --tune-runs has no room for all neighbors. (To try only some would favor one side.) All runs
// have the seed of --tune-seed, and the order in which they end does not matter.

#include <string>
#include <vector>

#include "summary.hpp"

// "lr and warmup"
std::string tuned_text(const Tuning& tuning);

// Tuning runs of a cell at most.
size_t most_tuning_runs(const Comparison& comparison);

// Tuning runs of a cell that have ended.
size_t tuning_runs_made(const Comparison& comparison, size_t cell);

// Those that it may still need; 0 once its search is over.
size_t tuning_runs_left(const Comparison& comparison, size_t cell);

// The runs that a cell needs next, in the light of those that have ended. None: its search is over.
std::vector<CellRun> next_tuning_runs(const Comparison& comparison, size_t cell);

// Makes the runs, and fills `best` and `untried` of each cell. Throws std::runtime_error if every run of a cell failed.
void tune(Comparison& comparison);
