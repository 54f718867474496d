#pragma once
// A comparison being made: what was asked for, what has been run.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "tables.hpp"

struct Study {
  Command command;
  std::string out, binary;
  std::vector<std::string> words;  // of `train`, common to all runs
  std::vector<std::string> seeds;
  Tuning tuning;                   // no values where nothing is tuned
  uint64_t data_fingerprint = 0;
  Comparison comparison;
  int64_t steps_taken = 0;         // of all runs that are over

  const CompareOptions& options() const { return command.compare; }
};

// Everything about a run, before it begins. Throws std::invalid_argument where an option does not take its value.
PlannedRun plan_run(const Study& study, Stage stage, size_t cell, const std::string& seed, std::optional<double> tuned);

// The name of a cell as that of a directory: "init-from=a/b" is "init-from=a%2Fb".
std::string directory_name(const std::string& cell);

// Makes the runs that are not over yet, and adds all to the comparison. `later`: steps that other stages will take.
// Throws std::runtime_error where a run that is there already is not the one that is planned, where the very first run
// fails, and where a person stopped it.
void make_runs(Study& study, const std::vector<PlannedRun>& runs, int64_t later);

// Every value of --tune with every cell on one seed, and further ones beyond the edge where the best lies there; then
// each cell knows its own.
void tune(Study& study);
