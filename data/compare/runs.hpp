#pragma once
// The runs of a comparison: planned, trained unless they have finished already, and read.

#include <string>
#include <vector>

#include "summary.hpp"

// Throws std::invalid_argument if an option of --tune has no such value, or does not take it.
CellRun plan_run(const Comparison& comparison, Stage stage, size_t cell, const std::string& seed, const Point& point);

// The options of a run whose text has not been read yet.
TrainOptions in_force(TrainOptions given);

// Threads of each of the runs that train at once.
int threads_of_run(const Comparison& comparison);

// The directory name of a cell: "init-from=a/b" becomes "init-from=a%2Fb".
std::string directory_name(const std::string& cell);

// The first option in which two runs differ, with both values; "" if there is none.
std::string first_difference(TrainOptions there, TrainOptions here, const std::vector<std::string>& except);

// Thrown if Comparison::trains is false and there is something to train.
struct RunsLeft {};

// Trains the unfinished runs, the longest first if several are trained at once, and adds every run to the comparison.
// `later` is the number of steps in later stages, for the progress line. Throws std::runtime_error if a directory holds
// another run than the planned one, if the first run fails, or if the user stops it.
void make_runs(Comparison& comparison, const std::vector<CellRun>& runs, int64_t later);
