#pragma once
// Training runs as processes of this binary, some at a time.

#include <functional>
#include <string>
#include <vector>

#include "data/host/progress.hpp"

struct Job {
  std::vector<std::string> words;  // of the command line, behind the program
  std::string directory;           // the run's; what it prints goes to log.txt there
  std::string label;
  int64_t steps = 0;
};

// The binary that is running; `typed` where the system does not say.
std::string own_binary(const std::string& typed);

// Runs the jobs in order, at most `at_once` at a time, and calls `ended` with each one's index and exit status (128 +
// signal where one ended it). `before` and `after` steps of other jobs count in what is shown. A person's Ctrl-C is
// passed on, so that each run saves itself, and false is returned when all have. Where `ended` throws, the others are
// killed.
bool run_jobs(const std::string& binary, const std::vector<Job>& jobs, int at_once, int64_t before, int64_t after,
              const std::function<void(size_t, int, Progress&)>& ended);
