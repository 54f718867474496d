#include "tuning.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

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

// True if a run reads the tokens of all others, and is validated on the same ones. False if its text is too short.
bool is_comparable(const Comparison& c, const TrainOptions& o) {
  if (c.texts.empty() || c.texts.contains(reading_of(o))) return true;
  try {
    const Dataset data = load_text(o, c.out());
    return hash_validation(o, data) == c.validation && changed_input(c.inputs, hash_text(o, data)).empty();
  } catch (const std::runtime_error&) {
    return false;
  }
}

// Returns nothing if an option does not accept its value, if a tuned warm-up would not end, or if the run's loss could
// not be compared.
std::optional<CellRun> plan_possible(const Comparison& c, size_t cell, const Point& point) {
  try {
    CellRun run = plan_run(c, Stage::tune, cell, tune_seed(c), point);
    CheckpointHeader from;
    const TrainOptions o = options_on_checkpoint(run.words, {}, from);
    resolved(with_vocabulary(o).config);
    if (!is_comparable(c, o)) return std::nullopt;
    const bool is_tuned = std::ranges::count(c.tuning.options, "warmup", &TunedOption::key) > 0;
    return !is_tuned || o.rate.warmup_steps(o.steps) < o.steps ? std::optional(run) : std::nullopt;
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

Point moved(Point point, size_t option, int step) {
  point[option] += step;
  return point;
}

// Returns the points next to `point` along one option.
std::vector<Point> axis_neighbors(const Point& point) {
  std::vector<Point> neighbors;
  for (size_t k = 0; k < point.size(); ++k)
    for (const int step : {-1, 1}) neighbors.push_back(moved(point, k, step));
  return neighbors;
}

// Returns the points next to `point` along two options at once.
std::vector<Point> diagonal_neighbors(const Point& point) {
  std::vector<Point> neighbors;
  for (size_t a = 0; a < point.size(); ++a)
    for (size_t b = a + 1; b < point.size(); ++b)
      for (const int step_a : {-1, 1})
        for (const int step_b : {-1, 1}) neighbors.push_back(moved(moved(point, a, step_a), b, step_b));
  return neighbors;
}

// Returns the runs of those points that are possible and not yet tried.
std::vector<CellRun> untried(const Comparison& c, size_t cell, const std::vector<Point>& points) {
  std::vector<CellRun> runs;
  for (const Point& point : points)
    if (const auto run = plan_possible(c, cell, point))
      if (std::ranges::find(c.runs, run->directory, &CellRun::directory) == c.runs.end()) runs.push_back(*run);
  return runs;
}

// Returns the next round of a search: the untried neighbors of the best point along one option, or else those along
// two at once. A higher rate may help only with a longer warm-up, and the warm-up only with the rate.
std::vector<CellRun> untried_neighbors(const Comparison& c, size_t cell) {
  const auto best = best_point(c, cell);
  if (!best) return {};
  const std::vector<CellRun> along_one = untried(c, cell, axis_neighbors(*best));
  return along_one.empty() ? untried(c, cell, diagonal_neighbors(*best)) : along_one;
}

// Returns false if the option has no value `i`: 0 has no lower neighbor.
bool has_value(const TunedOption& option, int i) {
  try {
    option.value(i);
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

// Returns {"warmup", ">40%"} if the next value, 160 %, is impossible: a better one may lie between.
std::vector<GridKey> values_beyond(const Comparison& c, size_t cell, const Point& best) {
  std::vector<GridKey> beyond;
  for (size_t k = 0; k < best.size(); ++k)
    for (const int step : {-1, 1}) {
      const TunedOption& option = c.tuning.options[k];
      if (has_value(option, best[k] + step) && !plan_possible(c, cell, moved(best, k, step)))
        beyond.emplace_back(option.key, (step > 0 ? ">" : "<") + option.value(best[k]));
    }
  return beyond;
}

// Returns the values of a point's options that differ from the best ones.
std::vector<GridKey> keys_that_differ(const Comparison& c, const Point& point, const Point& best) {
  std::vector<GridKey> keys;
  for (size_t k = 0; k < best.size(); ++k)
    if (point[k] != best[k]) keys.push_back(c.tuning.keys(point)[k]);
  return keys;
}

}  // namespace

std::string tuned_text(const Tuning& tuning) {
  std::string text;
  for (const TunedOption& option : tuning.options) text += (text.empty() ? "" : " and ") + option.key;
  return text;
}

std::vector<size_t> tuned_cells(const Comparison& c) {
  std::vector<size_t> cells;
  for (size_t cell = 0; cell < c.grid.cells.size(); ++cell)
    if (c.tuned_by(cell) == cell) cells.push_back(cell);
  return cells;
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
  if (c.tuned_by(cell) != cell) return runs;
  const size_t made = tuning_runs_made(c, cell), most = most_tuning_runs(c);
  if (made == 0)
    for (const Point& point : c.tuning.combinations())
      runs.push_back(plan_run(c, Stage::tune, cell, tune_seed(c), point));
  else if (made < most)
    runs = untried_neighbors(c, cell);
  if (runs.size() > most - made) runs.clear();
  return runs;
}

size_t tuning_runs_left(const Comparison& c, size_t cell) {
  return next_tuning_runs(c, cell).empty() ? 0 : most_tuning_runs(c) - tuning_runs_made(c, cell);
}

std::vector<GridKey> best_elsewhere(const Comparison& c, size_t cell) {
  std::vector<GridKey> values;
  if (c.tuned_by(cell) != cell) return values;
  for (size_t k = 0; k < c.tuning.options.size(); ++k) {
    std::vector<int> tried, best;
    for (const CellRun& run : c.runs)
      if (is_tuning_run(run, cell)) tried.push_back(run.point[k]);
    for (const CellSummary& s : c.cells) best.push_back(s.best[k]);
    const auto [low, high] = std::ranges::minmax(tried);
    const auto [least, most] = std::ranges::minmax(best);
    for (const auto& [beyond, value] : {std::pair{least < low, least}, {most > high, most}})
      if (beyond) values.emplace_back(c.tuning.options[k].key, c.tuning.options[k].value(value));
  }
  return values;
}

void tune(Comparison& c) {
  for (std::vector<CellRun> runs;; runs.clear()) {
    int64_t later = 0;  // steps, an upper bound
    for (size_t cell = 0; cell < c.cells.size(); ++cell) {
      const std::vector<CellRun> next = next_tuning_runs(c, cell);
      const size_t more = c.seeds.size() + tuning_runs_left(c, cell) - next.size();
      later += static_cast<int64_t>(more) * c.planned[cell * c.tuning.combinations().size()].steps;
      runs.insert(runs.end(), next.begin(), next.end());
    }
    if (runs.empty()) break;
    make_runs(c, runs, later);
  }
  for (size_t cell = 0; cell < c.cells.size(); ++cell) {
    CellSummary& s = c.cells[cell];
    const size_t tuned = c.tuned_by(cell);
    const auto best = best_point(c, tuned);
    if (!best)
      throw std::runtime_error("every run of " + c.grid.cells[tuned].name + " failed: see log.txt in its directories");
    s.best = *best;
    if (tuned != cell) continue;
    for (const GridKey& beyond : values_beyond(c, cell, *best)) s.untried.push_back({beyond});
    for (const CellRun& run : untried_neighbors(c, cell)) s.untried.push_back(keys_that_differ(c, run.point, *best));
  }
}
