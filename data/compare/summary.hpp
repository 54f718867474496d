#pragma once
// A comparison in memory: its runs, and a summary of each cell.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/options/grid.hpp"
#include "data/options/options.hpp"
#include "data/run/inputs.hpp"
#include "pool.hpp"
#include "result.hpp"
#include "statistics.hpp"
#include "validation.hpp"

enum class Stage { tune, final };  // tune: one seed, many points of --tune. final: every seed, the cell's best point

// A run of a comparison. All but the result is known before it begins. Its directory is relative to the comparison's,
// its words are a `train` command line without --out, and its label is "placement=post,norm=layernorm  seed=1".
struct CellRun : Job {
  Stage stage = Stage::final;
  size_t cell = 0;              // index into the grid's cells
  std::string seed;
  Point point;                  // values of --tune's options
  RunResult result;
};

// Summary of a cell over its final-stage runs.
struct CellSummary {
  Point best;                          // best values of --tune's options
  std::vector<std::vector<GridKey>> untried;  // untried neighbors of the best point, the options that differ
  int runs = 0, count[4] = {};         // count[s]: runs in RunState s
  double trained_flops = 0;            // of its runs that had ended before this call
  RunResult mean;                      // means over the runs; NaN unless all finished
  Estimate loss{}, difference{};       // final loss, and its paired difference from the baseline's
  Estimate pairs{};                    // share of --eval-pairs that is right
  Spread seconds{}, tokens_per_second{};
  double p = RunResult::kUnknown, p_holm = p;  // for a difference of 0; p_holm is corrected for the number of cells
  double p_unequal = p;                        // for a difference beyond --margin
  // "baseline", "better", "worse", "not distinguishable"; with --margin also "equal within 0.01" and "better, within
  // 0.01". verdict judges each cell alone; verdict_holm corrects for the number of cells.
  std::string verdict, verdict_holm;
  std::vector<double> sensitivity;     // one for each option of --tune
};

// Times count only if runs train one at a time on one machine: simultaneous runs slow each other down, and times of
// different machines cannot be compared.
inline bool reports_times(const CompareOptions& o) { return o.jobs == 1 && !o.join; }

// Part `index` of `count` of a comparison's runs, counted from 0.
struct RunShard {
  size_t index = 0, count = 1;
};

// What options follow from in the text of a run.
struct TextFacts {
  int vocabulary = 0;  // of the tokenizer; 0 if not read yet
  double targets = 1;  // the share of a row's tokens that runs count
  double train = 0;    // tokens to train on
};

// A number of runs, and their total steps and operations.
struct Amount {
  size_t runs = 0;
  int64_t steps = 0;
  double flops = 0;

  void add(const Job& run) {
    ++runs;
    steps += run.steps;
    flops += run.flops;
  }
  void add(const Amount& other) {
    runs += other.runs;
    steps += other.steps;
    flops += other.flops;
  }
};

struct Comparison {
  Command command;                 // `compare`
  std::vector<std::string> words;  // the `train` command line common to all runs
  Grid grid;
  std::vector<std::string> seeds;
  Tuning tuning;
  size_t baseline = 0;             // index of a cell
  std::vector<double> tokens;      // that a run of each cell trains on; empty without --tokens-per-parameter
  std::map<Reading, TextFacts> texts;  // of the planned runs; empty if none is read yet
  RunShard shard;                  // the only runs that this process trains
  bool trains = true;              // false: only reads the runs of all processes
  std::vector<TrainOptions> planned;  // options of each cell, with each value of --tune
  InputHashes inputs;                 // what all runs read
  uint64_t validation = 0;            // hash_validation() of all runs
  std::vector<std::string> notes;     // for the user
  double target = RunResult::kUnknown;
  double fewest_tokens = 0, most_tokens = 0;  // tokens that a run trains on
  Amount trained;                             // all runs that have ended
  std::vector<CellRun> runs;                  // the runs that have ended
  std::vector<CellSummary> cells;             // in the grid's order

  // Returns the cell whose losses this one's are compared with: the baseline, or its cell of the same size.
  std::optional<size_t> baseline_of(size_t cell) const;
  // Returns the cell whose tuning this one takes over: itself, or with --tune-size its cell of that size.
  size_t tuned_by(size_t cell) const;

  const CompareOptions& options() const { return command.compare; }
  const std::string& out() const { return command.train.out; }
  bool timed() const { return reports_times(options()); }
};

// Fills the target, the summaries of the cells, and the runs' times to the target.
void summarize(Comparison& comparison);
