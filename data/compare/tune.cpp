#include "tune.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <stdexcept>

#include "data/host/format.hpp"
#include "data/options/command_line.hpp"
#include "runs.hpp"
#include "summary.hpp"

namespace {

// The values tried so far with a cell, in rising order, and where the best of them is.
struct Tried {
  std::vector<double> values;
  size_t best = 0;

  bool at_low_edge() const { return best == 0; }
  bool at_high_edge() const { return best + 1 >= values.size(); }
};

Tried tried_with(const Comparison& c, size_t cell) {
  std::vector<std::pair<double, const RunResult*>> runs;
  for (const FinishedRun& run : c.runs)  // a run that failed says nothing of its value
    if (run.plan.cell == cell && run.plan.stage == Stage::tune && run.result.state != RunState::failed)
      runs.emplace_back(*run.plan.tuned, &run.result);
  std::sort(runs.begin(), runs.end());
  const auto cost = [](const RunResult& r) { return r.state == RunState::diverged ? INFINITY : r.final_loss; };
  Tried t;
  for (size_t i = 0; i < runs.size(); ++i) {
    t.values.push_back(runs[i].first);
    if (cost(*runs[i].second) < cost(*runs[t.best].second)) t.best = i;
  }
  return t;
}

// The next value beyond the edge at which the best lies, by the ratio of the two before it; none where it is inside.
std::optional<double> beyond_edge(const Tried& t) {
  const size_t n = t.values.size();
  if (n < 2 || !(t.at_low_edge() || t.at_high_edge())) return std::nullopt;
  const double edge = t.at_low_edge() ? t.values[0] : t.values[n - 1];
  const double inner = t.at_low_edge() ? t.values[1] : t.values[n - 2];
  return std::strtod(format("%.1e", edge * edge / inner).c_str(), nullptr);  // two digits: 1e-2² / 3e-3 is 3.3e-2
}

// None where the option does not take the value, or it has been tried.
std::optional<PlannedRun> plan_beyond_edge(const Study& s, size_t cell, const std::string& seed) {
  const auto value = beyond_edge(tried_with(s.comparison, cell));
  if (!value) return std::nullopt;
  try {
    PlannedRun run = plan_run(s, Stage::tune, cell, seed, *value);
    resolved(with_vocabulary(train_options(run.words, {})).config);
    for (const FinishedRun& other : s.comparison.runs)
      if (other.plan.directory == run.directory) return std::nullopt;
    return run;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

}  // namespace

void tune(Study& s) {
  const size_t cells = s.comparison.grid.cells.size();
  const std::string seed = std::to_string(s.options().tune_seed);
  const int64_t later = static_cast<int64_t>(cells * s.seeds.size()) * s.command.train.steps;
  std::vector<PlannedRun> runs;
  for (size_t cell = 0; cell < cells; ++cell)
    for (const double value : s.tuning.values) runs.push_back(plan_run(s, Stage::tune, cell, seed, value));
  for (int extension = 0; !runs.empty(); ++extension) {
    make_runs(s, runs, later);
    runs.clear();
    for (size_t cell = 0; cell < cells && extension < s.options().extend; ++cell)
      if (const auto run = plan_beyond_edge(s, cell, seed)) runs.push_back(*run);
  }
  for (size_t cell = 0; cell < cells; ++cell) {
    const Tried t = tried_with(s.comparison, cell);
    if (t.values.empty())
      throw std::runtime_error("every run of " + s.comparison.grid.cells[cell].name + " failed: see log.txt in its directories");
    s.comparison.cells[cell].tuned = t.values[t.best];
    s.comparison.cells[cell].at_edge = t.at_low_edge() || t.at_high_edge();
  }
}
