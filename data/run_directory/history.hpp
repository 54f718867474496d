#pragma once
// history.jsonl of a run directory: which program trained the run, and when. One line per call of `train`, with
// --resume or without.

#include <cstdint>
#include <string>
#include <vector>

#include "data/host/version.hpp"

struct HistoryLine {
  std::string date;
  ProgramRecord program;
  int64_t from_step = 0;  // steps done before this call
};

inline constexpr const char* kHistory = "history.jsonl";

// Adds a line for this program with the current time.
void keep_history(const std::string& directory, int64_t from_step);

// Returns the readable lines; none if there is no file.
std::vector<HistoryLine> read_history(const std::string& directory);
