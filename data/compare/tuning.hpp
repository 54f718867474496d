#pragma once
// Searches for the best values of --tune's options, separately for each cell.
//
// A cell first trains with every combination of the values that the user gave. Then it tries the neighbors of the best
// point in rounds:
//
//   1. for each option, the next lower and the next higher value, even beyond the given ones
//   2. once all of these are tried: for each two options, the four points that move both
//
// It starts again from each better point, and ends when no neighbor is better or when the next round does not fit into
// --tune-runs. (Trying a part of a round would favor one side.) All runs use --tune-seed, and the order in which they
// end does not matter.

#include <string>
#include <vector>

#include "summary.hpp"

// "lr and warmup"
std::string tuned_text(const Tuning& tuning);

// The cells that tune. With --tune-size, the others take over what these find.
std::vector<size_t> tuned_cells(const Comparison& comparison);

// The highest number of tuning runs for a cell.
size_t most_tuning_runs(const Comparison& comparison);

// The number of a cell's tuning runs that have ended.
size_t tuning_runs_made(const Comparison& comparison, size_t cell);

// The highest number that a cell may still need; 0 once its search is over.
size_t tuning_runs_left(const Comparison& comparison, size_t cell);

// Returns the runs that a cell needs next, given those that have ended; none once its search is over.
std::vector<CellRun> next_tuning_runs(const Comparison& comparison, size_t cell);

// Returns values of options that are best in another cell, and lie beyond all that this one tried; of several, the
// farthest. A search ends at the first valley, so a comparison is fairer if each cell tries the best values of all.
std::vector<GridKey> best_elsewhere(const Comparison& comparison, size_t cell);

// Trains the tuning runs, and fills `best` and `untried` of each cell. Throws std::runtime_error if every run of a cell
// failed.
void tune(Comparison& comparison);
