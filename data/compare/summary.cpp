#include "summary.hpp"

#include <algorithm>
#include <cmath>

namespace {

std::vector<const CellRun*> runs_of(const Comparison& c, size_t cell, Stage stage) {
  std::vector<const CellRun*> runs;
  for (const CellRun& run : c.runs)
    if (run.cell == cell && run.stage == stage) runs.push_back(&run);
  return runs;
}

bool all_finished(const CellSummary& s) {
  return s.runs > 0 && s.count[static_cast<int>(RunState::finished)] == s.runs;
}

Estimate estimate_of(const std::vector<const CellRun*>& runs, double RunResult::* number) {
  std::vector<double> values;
  for (const CellRun* run : runs) values.push_back(run->result.*number);
  return estimate(values);
}

// The highest of the best validation losses of finished runs: every finished run reaches it.
double common_target(const Comparison& c) {
  double highest = RunResult::kUnknown;
  for (const CellRun& run : c.runs)
    if (run.stage == Stage::final && run.result.state == RunState::finished)
      highest = std::fmax(highest, run.result.best_loss);
  return highest;
}

void count_states(CellSummary& s, const std::vector<const CellRun*>& runs) {
  for (const CellRun* run : runs) {
    ++s.runs;
    ++s.count[static_cast<int>(run->result.state)];
    s.mean.parameters = std::max(s.mean.parameters, run->result.parameters);
  }
}

void average(CellSummary& s, const std::vector<const CellRun*>& runs) {
  s.loss = estimate_of(runs, &RunResult::final_loss);
  for (const auto number : {&RunResult::best_loss, &RunResult::steps_to_target, &RunResult::seconds_to_target,
                            &RunResult::seconds, &RunResult::tokens_per_second, &RunResult::loss_spikes,
                            &RunResult::grad_spikes, &RunResult::clipped})
    s.mean.*number = estimate_of(runs, number).mean;
}

// Runs with the same seed have the same batches and, if the tensors are the same, the same initial weights.
// Differences of such pairs leave that noise out.
void compare_with_baseline(Comparison& c, size_t cell) {
  CellSummary& s = c.cells[cell];
  if (cell == c.baseline) {
    s.verdict = "baseline";
    return;
  }
  if (!all_finished(s) || !all_finished(c.cells[c.baseline])) return;
  std::vector<double> differences;
  for (const CellRun* a : runs_of(c, cell, Stage::final))
    for (const CellRun* b : runs_of(c, c.baseline, Stage::final))
      if (a->seed == b->seed) differences.push_back(a->result.final_loss - b->result.final_loss);
  s.difference = estimate(differences);
  if (std::isnan(s.difference.mean)) return;  // a final loss is not known
  s.verdict = s.difference.contains_zero() ? "not distinguishable" : s.difference.mean < 0 ? "better" : "worse";
}

// Over the values of --tune, which every cell has tried, without those beyond the edge that only some have.
double sensitivity(const Comparison& c, size_t cell) {
  std::vector<double> losses, initial;
  for (const CellRun* run : runs_of(c, cell, Stage::tune)) {
    if (std::find(c.tuning.values.begin(), c.tuning.values.end(), *run->tuned) == c.tuning.values.end()) continue;
    losses.push_back(run->result.state == RunState::diverged ? RunResult::kUnknown : run->result.final_loss);
    initial.push_back(run->result.initial_loss);
  }
  return lr_sensitivity(losses, initial);
}

}  // namespace

void summarize(Comparison& c) {
  c.target = c.options().target > 0 ? c.options().target : common_target(c);
  for (CellRun& run : c.runs) {
    RunResult& r = run.result;
    r.steps_to_target = first_at_or_below(c.target, r.at_step, r.val_loss);
    r.seconds_to_target = first_at_or_below(c.target, r.at_second, r.val_loss);
  }
  c.cells.resize(c.grid.cells.size());
  for (size_t cell = 0; cell < c.cells.size(); ++cell) {
    CellSummary& s = c.cells[cell];
    const auto runs = runs_of(c, cell, Stage::final);
    count_states(s, runs);
    s.loss = s.difference = estimate({});
    if (all_finished(s)) average(s, runs);
    if (c.tuning.key == "lr") s.lr_sensitivity = sensitivity(c, cell);
  }
  for (size_t cell = 0; cell < c.cells.size(); ++cell) compare_with_baseline(c, cell);
}
