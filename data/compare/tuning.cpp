#include "tuning.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "data/options/command_line.hpp"
#include "data/run/resume.hpp"
#include "runs.hpp"

namespace {

std::string tune_seed(const Comparison& c) { return std::to_string(c.options().tune_seed); }

bool is_tuning_run(const CellRun& run, size_t cell) { return run.cell == cell && run.stage == Stage::tune; }

// Returns the point with the lowest loss. Ignores failed runs, because they tell nothing about their point.
std::optional<Point> best_point(const Comparison& c, size_t cell) {
  std::optional<Point> best;
  double lowest = INFINITY;
  for (const CellRun& run : c.runs) {
    if (!is_tuning_run(run, cell) || run.result.state == RunState::failed) continue;
    const double loss = run.result.state == RunState::diverged ? INFINITY : run.result.final_loss;
    if (best && !(loss < lowest)) continue;
    best = run.point;
    lowest = loss;
  }
  return best;
}

// Returns nothing if an option does not accept its value, or if a tuned warm-up would not end.
std::optional<CellRun> plan_possible(const Comparison& c, size_t cell, const Point& point) {
  try {
    CellRun run = plan_run(c, Stage::tune, cell, tune_seed(c), point);
    CheckpointHeader from;
    const TrainOptions o = options_on_checkpoint(run.words, {}, from);
    resolved(with_vocabulary(o).config);
    const bool is_tuned = std::ranges::count(c.tuning.options, "warmup", &TunedOption::key) > 0;
    return !is_tuned || o.rate.warmup_steps(o.steps) < o.steps ? std::optional(run) : std::nullopt;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

// The untried neighbors of the best point, and the neighboring values that cannot be tried.
struct Neighbors {
  std::vector<CellRun> untried;
  std::vector<GridKey> beyond;  // {"warmup", ">40%"}: the next, 160 %, is impossible, but a better one may be below it
};

// Returns "" if the value does not exist: 0 has no lower neighbor.
std::string value_at(const TunedOption& option, int i) {
  try {
    return option.value(i);
  } catch (const std::invalid_argument&) {
    return "";
  }
}

Neighbors neighbors_of_best(const Comparison& c, size_t cell) {
  Neighbors found;
  const auto best = best_point(c, cell);
  for (size_t k = 0; best && k < best->size(); ++k)
    for (const int direction : {-1, 1}) {
      Point neighbor = *best;
      neighbor[k] += direction;
      const TunedOption& option = c.tuning.options[k];
      if (value_at(option, neighbor[k]).empty()) continue;
      if (const auto run = plan_possible(c, cell, neighbor); !run)
        found.beyond.emplace_back(option.key, (direction > 0 ? ">" : "<") + option.value((*best)[k]));
      else if (std::ranges::find(c.runs, run->directory, &CellRun::directory) == c.runs.end())
        found.untried.push_back(*run);
    }
  return found;
}

}  // namespace

std::string tuned_text(const Tuning& tuning) {
  std::string text;
  for (const TunedOption& option : tuning.options) text += (text.empty() ? "" : " and ") + option.key;
  return text;
}

size_t most_tuning_runs(const Comparison& c) {
  const size_t first = c.tuning.combinations().size();
  return c.options().tune_runs ? static_cast<size_t>(*c.options().tune_runs) : first + (first + 1) / 2;
}

size_t tuning_runs_made(const Comparison& c, size_t cell) {
  return static_cast<size_t>(
      std::ranges::count_if(c.runs, [&](const CellRun& run) { return is_tuning_run(run, cell); }));
}

std::vector<CellRun> next_tuning_runs(const Comparison& c, size_t cell) {
  std::vector<CellRun> runs;
  const size_t made = tuning_runs_made(c, cell), most = most_tuning_runs(c);
  if (made == 0)
    for (const Point& point : c.tuning.combinations())
      runs.push_back(plan_run(c, Stage::tune, cell, tune_seed(c), point));
  else if (made < most)
    runs = neighbors_of_best(c, cell).untried;
  if (runs.size() > most - made) runs.clear();
  return runs;
}

size_t tuning_runs_left(const Comparison& c, size_t cell) {
  return next_tuning_runs(c, cell).empty() ? 0 : most_tuning_runs(c) - tuning_runs_made(c, cell);
}

void tune(Comparison& c) {
  for (std::vector<CellRun> runs;; runs.clear()) {
    size_t later = c.cells.size() * c.seeds.size();  // upper bound
    for (size_t cell = 0; cell < c.cells.size(); ++cell) {
      const std::vector<CellRun> next = next_tuning_runs(c, cell);
      later += tuning_runs_left(c, cell) - next.size();
      runs.insert(runs.end(), next.begin(), next.end());
    }
    if (runs.empty()) break;
    make_runs(c, runs, static_cast<int64_t>(later) * c.command.train.steps);
  }
  for (size_t cell = 0; cell < c.cells.size(); ++cell) {
    CellSummary& s = c.cells[cell];
    const auto best = best_point(c, cell);
    if (!best)
      throw std::runtime_error("every run of " + c.grid.cells[cell].name + " failed: see log.txt in its directories");
    s.best = *best;
    const Neighbors neighbors = neighbors_of_best(c, cell);
    s.untried = neighbors.beyond;
    for (const CellRun& run : neighbors.untried)
      for (size_t k = 0; k < best->size(); ++k)
        if (run.point[k] != s.best[k]) s.untried.push_back(c.tuning.keys(run.point)[k]);
  }
}
