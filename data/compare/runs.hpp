#pragma once
// Plans the runs of a comparison, trains those that are not finished, and reads their results.

#include <string>
#include <vector>

#include "data/options/command_settings.hpp"
#include "summary.hpp"

// Plans one run. Throws std::invalid_argument if an option of --tune does not accept its value in `point`.
CellRun plan_run(const Comparison& comparison, Stage stage, size_t cell, const std::string& seed, const Point& point);

// Returns the resolved options of a run whose text has not been read yet.
TrainOptions in_force(TrainOptions given);

// Returns the number of threads for each of the runs that train at the same time.
int threads_of_run(const Comparison& comparison);

// Returns the directory name of a cell: "init-from=a%2Fb" for "init-from=a/b".
std::string directory_name(const std::string& cell);

// Returns the first option in which two runs differ and that is not `ignored`, with both values, or "".
std::string first_difference(const TrainOptions& there, const TrainOptions& here, bool (*ignored)(const Setting&));

// Thrown if Comparison::trains is false and a run is not trained.
struct RunsLeft {};

// Trains the unfinished runs and adds every run to the comparison. Begins with the longest if several train at once.
// `later` is the number of steps in later stages, for the progress line. Throws std::runtime_error if a directory holds
// another run than the planned one, if the first run fails, or if the user stops it.
void make_runs(Comparison& comparison, const std::vector<CellRun>& runs, int64_t later);
