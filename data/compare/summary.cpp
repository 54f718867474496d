#include "summary.hpp"

#include <algorithm>
#include <cmath>

#include "data/options/toml.hpp"

namespace {

constexpr double kSignificant = 0.05;

std::vector<const CellRun*> runs_of(const Comparison& c, size_t cell, Stage stage) {
  std::vector<const CellRun*> runs;
  for (const CellRun& run : c.runs)
    if (run.cell == cell && run.stage == stage) runs.push_back(&run);
  return runs;
}

bool all_finished(const CellSummary& s) {
  return s.runs > 0 && s.count[static_cast<int>(RunState::finished)] == s.runs;
}

std::vector<double> values_of(const std::vector<const CellRun*>& runs, double RunResult::* number) {
  std::vector<double> values;
  for (const CellRun* run : runs) values.push_back(run->result.*number);
  return values;
}

// A single validation has no lowest point and tells nothing about the steps before it.
bool has_curve(const CellRun& run) { return run.result.val_loss.size() > 1; }

// Returns the highest of the finished runs' best validation losses, because every finished run reaches it.
double common_target(const Comparison& c) {
  double highest = RunResult::kUnknown;
  for (const CellRun& run : c.runs)
    if (run.stage == Stage::final && run.result.state == RunState::finished && has_curve(run))
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
  s.loss = estimate(values_of(runs, &RunResult::final_loss));
  s.pairs = estimate(values_of(runs, &RunResult::pairs));
  for (const auto number : {&RunResult::best_loss, &RunResult::steps_to_target, &RunResult::seconds_to_target,
                            &RunResult::loss_spikes, &RunResult::grad_spikes, &RunResult::clipped})
    s.mean.*number = estimate(values_of(runs, number)).mean;
  if (!std::all_of(runs.begin(), runs.end(), [](const CellRun* run) { return has_curve(*run); }))
    s.mean.best_loss = RunResult::kUnknown;
  s.seconds = spread(values_of(runs, &RunResult::seconds));
  s.tokens_per_second = spread(values_of(runs, &RunResult::tokens_per_second));
}

// Runs with the same seed have the same batches and, if the tensors are the same, the same initial weights.
// Differences of such pairs are free of that noise.
void compare_with_baseline(Comparison& c, size_t cell) {
  CellSummary& s = c.cells[cell];
  const auto baseline = c.baseline_of(cell);
  if (!baseline || cell == *baseline || !all_finished(s) || !all_finished(c.cells[*baseline])) return;
  std::vector<double> differences;
  for (const CellRun* a : runs_of(c, cell, Stage::final))
    for (const CellRun* b : runs_of(c, *baseline, Stage::final))
      if (a->seed == b->seed) differences.push_back(a->result.final_loss - b->result.final_loss);
  s.difference = estimate(differences);
  s.p = p_of_zero(s.difference);
  if (c.options().margin > 0) s.p_unequal = p_of_inequality(s.difference, c.options().margin);
}

// There is no verdict without final losses, and none on one seed.
std::string verdict_of(const CellSummary& s, bool differs, double p_unequal, double margin) {
  if (std::isnan(s.difference.mean) || s.difference.n < 2) return "";
  const std::string size = p_unequal < kSignificant ? "within " + toml(margin) : "";
  if (!differs) return size.empty() ? "not distinguishable" : "equal " + size;
  return (s.difference.mean < 0 ? "better" : "worse") + (size.empty() ? "" : ", " + size);
}

// Sets the verdicts of all cells, each alone and corrected for the number of cells.
void judge(Comparison& c) {
  std::vector<double> differ, unequal;
  size_t comparisons = 0;  // with a cell that lost a run, too
  for (size_t cell = 0; cell < c.cells.size(); ++cell) {
    differ.push_back(c.cells[cell].p);
    unequal.push_back(c.cells[cell].p_unequal);
    comparisons += c.baseline_of(cell) != cell;
  }
  const std::vector<double> differ_holm = holm(differ, comparisons), unequal_holm = holm(unequal, comparisons);
  const double margin = c.options().margin;
  for (size_t cell = 0; cell < c.cells.size(); ++cell) {
    CellSummary& s = c.cells[cell];
    s.p_holm = differ_holm[cell];
    s.verdict = verdict_of(s, !s.difference.contains_zero(), s.p_unequal, margin);
    s.verdict_holm = verdict_of(s, s.p_holm < kSignificant, unequal_holm[cell], margin);
    if (c.baseline_of(cell) == cell) s.verdict = s.verdict_holm = "baseline";
  }
}

// Returns a cell's sensitivity to option `k` of --tune, with the other options tuned for each of its values. Counts
// only values that every cell has tried.
double sensitivity(const Comparison& c, size_t cell, size_t k) {
  const size_t n = c.tuning.options[k].values.size();
  std::vector<double> losses(n, RunResult::kUnknown), initial = losses;
  for (const CellRun* run : runs_of(c, cell, Stage::tune)) {
    if (!c.tuning.contains(run->point)) continue;
    const auto i = static_cast<size_t>(run->point[k]);
    if (run->result.state != RunState::diverged) losses[i] = std::fmin(losses[i], run->result.final_loss);
    initial[i] = std::fmin(initial[i], run->result.initial_loss);
  }
  return lr_sensitivity(losses, initial);
}

// Returns the cell with the keys of `like`, but this size.
std::optional<size_t> cell_of_size(const Grid& grid, size_t like, const std::string& size) {
  const std::string name = grid.cells[like].without("size").name;
  for (size_t i = 0; i < grid.cells.size(); ++i)
    if (grid.cells[i].value("size") == size && grid.cells[i].without("size").name == name) return i;
  return std::nullopt;
}

}  // namespace

std::optional<size_t> Comparison::baseline_of(size_t cell) const {
  return grid.has("size") ? cell_of_size(grid, baseline, grid.cells[cell].value("size")) : baseline;
}

size_t Comparison::tuned_by(size_t cell) const {
  return options().tune_size.empty() ? cell : cell_of_size(grid, cell, options().tune_size).value_or(cell);
}

void summarize(Comparison& c) {
  c.target = c.options().target > 0 ? c.options().target : common_target(c);
  for (CellRun& run : c.runs) {
    if (!has_curve(run)) continue;
    RunResult& r = run.result;
    r.steps_to_target = first_at_or_below(c.target, r.at_step, r.val_loss);
    r.seconds_to_target = first_at_or_below(c.target, r.at_second, r.val_loss);
  }
  c.cells.resize(c.grid.cells.size());
  for (size_t cell = 0; cell < c.cells.size(); ++cell) {
    CellSummary& s = c.cells[cell];
    const auto runs = runs_of(c, cell, Stage::final);
    count_states(s, runs);
    s.loss = s.difference = s.pairs = estimate({});
    s.seconds = s.tokens_per_second = spread({});
    if (all_finished(s)) average(s, runs);
    s.sensitivity.clear();
    for (size_t k = 0; k < c.tuning.options.size(); ++k) s.sensitivity.push_back(sensitivity(c, cell, k));
  }
  for (size_t cell = 0; cell < c.cells.size(); ++cell) compare_with_baseline(c, cell);
  judge(c);
}
