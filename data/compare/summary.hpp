#pragma once
// A comparison in memory: its runs, and what they say about its cells.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/options/grid.hpp"
#include "data/options/options.hpp"
#include "data/run/inputs.hpp"
#include "pool.hpp"
#include "result.hpp"
#include "statistics.hpp"

enum class Stage { tune, final };  // one seed with many points of --tune; every seed with the cell's best point

// A run of a comparison. All but the result is known before it begins. Its directory is below the comparison's, its
// words are those of `train` without --out, its label is "placement=post,norm=layernorm  seed=1".
struct CellRun : Job {
  Stage stage = Stage::final;
  size_t cell = 0;              // index into the grid's cells
  std::string seed;
  Point point;                  // of --tune
  RunResult result;
};

// Summary of a cell over its final-stage runs.
struct CellSummary {
  Point best;                          // of --tune
  std::vector<GridKey> untried;        // values next to the best that were not tried: one may be better
  int runs = 0, count[4] = {};         // of each RunState
  RunResult mean;                      // of the numbers of the runs; NaN unless all of these finished
  Estimate loss{}, difference{};       // of the final losses, and of their paired differences to the baseline's
  Spread seconds{}, tokens_per_second{};
  double p = RunResult::kUnknown, p_holm = p;  // that the difference is 0; and corrected for the number of cells
  double p_unequal = p;                        // that the difference is not within --margin
  // "baseline", "better", "worse", "not distinguishable"; with --margin also "equal within 0.01" and "better, within
  // 0.01". By the difference alone, and corrected for the number of cells.
  std::string verdict, verdict_holm;
  std::vector<double> sensitivity;     // to each option of --tune
};

// Runs beside one another slow each other down, and times of different machines cannot be compared.
inline bool reports_times(const CompareOptions& o) { return o.jobs == 1 && !o.join; }

// Part `index` of `count` of a comparison's runs, counted from 0.
struct RunShard {
  size_t index = 0, count = 1;
};

// A number of runs, and what they take.
struct Amount {
  size_t runs = 0;
  int64_t steps = 0;
  double flops = 0;

  void add(const Job& run) { ++runs, steps += run.steps, flops += run.flops; }
};

struct Comparison {
  Command command;                 // `compare`
  std::vector<std::string> words;  // of `train`, common to all runs
  Grid grid;
  std::vector<std::string> seeds;
  Tuning tuning;
  size_t baseline = 0;             // a cell
  RunShard shard;                  // this process trains no other runs
  bool trains = true;              // false: it only reads those of all processes
  std::vector<TrainOptions> planned;  // options of each cell, with each value of --tune
  InputHashes inputs;                 // what all runs read
  std::vector<std::string> notes;     // about the text
  double target = RunResult::kUnknown;
  double fewest_tokens = 0, most_tokens = 0;  // that a run trains on
  Amount trained;                             // all runs that have ended
  std::vector<CellRun> runs;                  // those that have ended
  std::vector<CellSummary> cells;             // in the order of the grid's

  const CompareOptions& options() const { return command.compare; }
  const std::string& out() const { return command.train.out; }
  bool timed() const { return reports_times(options()); }
};

// Fills the target, the summaries of the cells, and the runs' times to the target.
void summarize(Comparison& comparison);
