#include "summary.hpp"

#include <algorithm>
#include <cmath>

namespace {

std::vector<const FinishedRun*> runs_of(const Comparison& c, size_t cell, Stage stage) {
  std::vector<const FinishedRun*> runs;
  for (const FinishedRun& run : c.runs)
    if (run.plan.cell == cell && run.plan.stage == stage) runs.push_back(&run);
  return runs;
}

bool all_finished(const CellSummary& s) { return s.runs > 0 && s.count[static_cast<int>(RunState::finished)] == s.runs; }

// The mean of what `of` says of each run.
template <class Of>
double mean_of(const std::vector<const FinishedRun*>& runs, const Of& of) {
  std::vector<double> values;
  for (const FinishedRun* run : runs) values.push_back(of(run->result));
  return estimate(values).mean;
}

// The highest of the lowest validation losses of finished runs: all of these come down to it.
double common_target(const Comparison& c) {
  double highest = RunResult::kUnknown;
  for (const FinishedRun& run : c.runs)
    if (run.plan.stage == Stage::final && run.result.state == RunState::finished)
      highest = std::fmax(highest, run.result.best_loss);
  return highest;
}

void count_states(CellSummary& s, const std::vector<const FinishedRun*>& runs) {
  for (const FinishedRun* run : runs) {
    ++s.runs;
    ++s.count[static_cast<int>(run->result.state)];
    s.parameters = std::max(s.parameters, run->result.parameters);
  }
}

void average(CellSummary& s, const std::vector<const FinishedRun*>& runs, double target) {
  std::vector<double> losses;
  for (const FinishedRun* run : runs) losses.push_back(run->result.final_loss);
  s.loss = estimate(losses);
  s.best = mean_of(runs, [](const RunResult& r) { return r.best_loss; });
  s.steps_to_target = mean_of(runs, [&](const RunResult& r) { return first_at_or_below(target, r.at_step, r.val_loss); });
  s.seconds_to_target = mean_of(runs, [&](const RunResult& r) { return first_at_or_below(target, r.at_second, r.val_loss); });
  s.seconds = mean_of(runs, [](const RunResult& r) { return r.seconds; });
  s.tokens_per_second = mean_of(runs, [](const RunResult& r) { return r.tokens_per_second; });
  s.loss_spikes = mean_of(runs, [](const RunResult& r) { return r.loss_spikes; });
  s.grad_spikes = mean_of(runs, [](const RunResult& r) { return r.grad_spikes; });
  s.clipped = mean_of(runs, [](const RunResult& r) { return r.clipped; });
}

// The same seed has the same batches and, where the tensors are the same, the same initial weights: differences of pairs
// leave that noise out.
void compare_with_baseline(Comparison& c, size_t cell) {
  CellSummary& s = c.cells[cell];
  if (cell == c.baseline) {
    s.verdict = "baseline";
    return;
  }
  if (!all_finished(s) || !all_finished(c.cells[c.baseline])) return;
  std::vector<double> differences;
  for (const FinishedRun* a : runs_of(c, cell, Stage::final))
    for (const FinishedRun* b : runs_of(c, c.baseline, Stage::final))
      if (a->plan.seed == b->plan.seed) differences.push_back(a->result.final_loss - b->result.final_loss);
  s.difference = estimate(differences);
  if (std::isnan(s.difference.mean)) return;  // nobody wrote down how a run ended
  s.verdict = s.difference.contains_zero() ? "not distinguishable" : s.difference.mean < 0 ? "better" : "worse";
}

// Over the rates that every cell has tried, not those that some went on to.
double sensitivity(const Comparison& c, size_t cell) {
  std::vector<double> losses, initial;
  for (const FinishedRun* run : runs_of(c, cell, Stage::tune)) {
    if (std::find(c.tuning_grid.begin(), c.tuning_grid.end(), *run->plan.tuned) == c.tuning_grid.end()) continue;
    losses.push_back(run->result.state == RunState::diverged ? RunResult::kUnknown : run->result.final_loss);
    initial.push_back(run->result.initial_loss);
  }
  return lr_sensitivity(losses, initial);
}

}  // namespace

void summarize(Comparison& c, double target) {
  c.target = target > 0 ? target : common_target(c);
  c.cells.resize(c.grid.cells.size());
  for (size_t cell = 0; cell < c.cells.size(); ++cell) {
    CellSummary& s = c.cells[cell];
    const auto runs = runs_of(c, cell, Stage::final);
    count_states(s, runs);
    s.loss = s.difference = estimate({});
    if (all_finished(s)) average(s, runs, c.target);
    if (c.tuned_key == "lr") s.lr_sensitivity = sensitivity(c, cell);
  }
  for (size_t cell = 0; cell < c.cells.size(); ++cell) compare_with_baseline(c, cell);
}
