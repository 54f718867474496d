#pragma once
// A comparison being made: what was asked for, what has been run.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "summary.hpp"

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
