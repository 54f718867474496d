#pragma once
// Training runs as processes of this binary, several at a time.

#include <functional>
#include <string>
#include <vector>

#include "data/host/progress.hpp"

struct Job {
  std::vector<std::string> words;  // command line, without the program
  std::string directory;           // of the run; its output goes to log.txt there
  std::string label;
  int64_t steps = 0;
};

// The running binary, or `typed` if the system does not name it.
std::string own_binary(const std::string& typed);

// Starts the jobs in order, at most `at_once` at a time. When one ends, calls `ended` with its index and exit code
// (128 + signal if a signal killed it). `before` and `after` are steps of other jobs that the progress counts. Passes
// Ctrl-C on, so that each run saves itself, and returns false once all have. If `ended` throws, kills the other jobs.
bool run_jobs(const std::string& binary, const std::vector<Job>& jobs, int at_once, int64_t before, int64_t after,
              const std::function<void(size_t, int, Progress&)>& ended);
