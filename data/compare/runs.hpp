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

// Makes the runs that are not over yet, and adds all to the comparison. `later`: steps that other stages will take.
// Throws std::runtime_error where a run that is there already is not the one that is planned, where the very first run
// fails, and where a person stopped it.
void make_runs(Study& study, const std::vector<PlannedRun>& runs, int64_t later);
