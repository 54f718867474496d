#pragma once
// Trains runs as processes of this binary, several at a time. Other processes, perhaps on other machines, may work on
// the same runs.

#include <functional>
#include <string>
#include <vector>

#include "data/host/progress.hpp"

struct Job {
  std::vector<std::string> words;  // command line, without the program
  std::string directory;           // the run's directory; its output goes to log.txt there
  std::string label;
  int64_t steps = 0;
  double flops = 0;
};

bool is_trained(const std::string& run_directory);

// Starts the jobs in order, at most `at_once` at a time, with --resume if the run has been saved, else with --force.
// `program` is this program as typed. Leaves a run to another process that works on it, and takes it over if that
// process dies. When a run ends, calls `ended` with its index and exit code (128 + signal if a signal killed it; 0 if
// another process trained it). The progress also counts `before` and `after`, the steps of other jobs. Passes Ctrl-C
// on, so that each run saves itself, and returns false once all have. If `ended` throws, kills the other jobs.
bool run_jobs(const std::string& program, const std::vector<Job>& jobs, int at_once, int64_t before, int64_t after,
              const std::function<void(size_t, int, Progress&)>& ended);
