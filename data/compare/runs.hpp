#pragma once
// The runs of a comparison: planned, trained unless they are there already, read.

#include <optional>
#include <string>
#include <vector>

#include "study.hpp"

// Everything about a run, before it begins. Throws std::invalid_argument where an option does not take its value.
PlannedRun plan_run(const Study& study, Stage stage, size_t cell, const std::string& seed, std::optional<double> tuned);

// The name of a cell as that of a directory: "init-from=a/b" is "init-from=a%2Fb".
std::string directory_name(const std::string& cell);

// Trains the runs that are not finished and adds all of them to the comparison. `later`: steps of later stages.
// Throws std::runtime_error if a directory holds another run than the planned one, if the first run fails, or if the
// user stops it.
void make_runs(Study& study, const std::vector<PlannedRun>& runs, int64_t later);
