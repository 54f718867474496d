#include "forecast.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "data/host/machine.hpp"
#include "data/host/peak.hpp"
#include "data/host/progress.hpp"
#include "data/run/resume.hpp"
#include "data/run/time_limit.hpp"
#include "data/run/trainer.hpp"
#include "data/strings/format.hpp"
#include "runs.hpp"
#include "tuning.hpp"

namespace {

// Returns the number of entries that a cell has in Comparison::planned.
size_t points_of(const Comparison& c) { return c.tuning.combinations().size(); }

std::pair<int64_t, int64_t> range_of_steps(const std::vector<TrainOptions>& planned) {
  const auto [fewest, most] = std::ranges::minmax(planned, {}, &TrainOptions::steps);
  return {fewest.steps, most.steps};
}

// Returns the operations of a run for each entry of Comparison::planned.
std::vector<double> operations_of(const Comparison& c) {
  std::vector<double> operations;
  for (const TrainOptions& o : c.planned) operations.push_back(operations_of_run(in_force(o)));
  return operations;
}

// All runs of the comparison, trained or not.
struct Work {
  size_t fewest_runs = 0, most_runs = 0;
  double fewest = 0, most = 0;  // operations
};

Work work_of(const Comparison& c, const std::vector<double>& operations) {
  const size_t points = points_of(c);
  Work work;
  for (size_t cell = 0; cell < c.grid.cells.size(); ++cell) {
    // Take the mean over the combinations of --tune, because the best one is not known yet.
    const auto first = operations.begin() + static_cast<std::ptrdiff_t>(cell * points);
    const double each = std::accumulate(first, first + static_cast<std::ptrdiff_t>(points), 0.) / double(points);
    size_t fewest = c.seeds.size(), most = fewest;
    if (!c.tuning.empty()) {
      const size_t made = tuning_runs_made(c, cell);
      fewest += std::max(made, points);
      most += made + tuning_runs_left(c, cell);
    }
    work.fewest_runs += fewest;
    work.most_runs += most;
    work.fewest += each * static_cast<double>(fewest);
    work.most += each * static_cast<double>(most);
  }
  return work;
}

// Measures the seconds of a run, including the start of its process, by taking some of its steps.
double time_run(const Comparison& c, TrainOptions o) {
  const Stopwatch clock;
  Command command = c.command;
  o.quiet = true;
  CheckpointHeader from;
  if (!o.init_from.empty()) from = read_checkpoint_header(find_checkpoint(o.init_from));
  Dataset data = load_training_data(o, from, c.command.program);
  command.train = o;
  CheckpointHeader of_run;
  of_run.options = o;
  Trainer t(command, of_run, std::move(data), std::make_shared<Group>());
  go_to_start(t);
  const double start = clock.seconds();
  return start + seconds_of_run(t, 0, 0);
}

// True if a few steps of the run take little time and fit into the free memory.
bool can_be_timed(const TrainOptions& o) {
  const size_t free = detect_machine().memory_free;
  return is_quickly_tried(o) && (free == 0 || memory_of_run(o).total() < free);
}

// Returns the seconds per operation. If the run cannot even start, the time is unknown; training will report the error.
double seconds_per_operation(const Comparison& c, const std::vector<double>& operations, Forecast& f) {
  const auto largest = static_cast<size_t>(std::ranges::max_element(operations) - operations.begin());
  const TrainOptions o = in_force(c.planned[largest]);
  use_threads(threads_of_run(c));
  f.at_peak = !can_be_timed(o);
  f.measured = c.grid.cells[largest / points_of(c)].name;
  try {
    return f.at_peak ? 1 / measure_flops(o.config.matmul) : time_run(c, c.planned[largest]) / operations[largest];
  } catch (const std::exception&) {
    return NAN;
  }
}

}  // namespace

Forecast forecast(const Comparison& c) {
  const std::vector<double> operations = operations_of(c);
  const Work work = work_of(c, operations);
  Forecast f;
  f.fewest_runs = work.fewest_runs;
  f.most_runs = work.most_runs;
  std::tie(f.fewest_steps, f.most_steps) = range_of_steps(c.planned);
  if (c.trained.runs >= work.most_runs) return f;
  const double share = c.options().jobs * static_cast<double>(c.shard.count);
  const double each = c.command.train.quiet ? NAN : seconds_per_operation(c, operations, f) / share;
  f.fewest_seconds = each * std::max(0., work.fewest - c.trained.flops);
  f.most_seconds = each * std::max(0., work.most - c.trained.flops);
  return f;
}

std::string runs_text(const Forecast& f) {
  const auto range = [](auto fewest, auto most, const char* unit) {
    return (most > fewest ? format_count(double(fewest)) + " to " : "") + counted(double(most), unit);
  };
  return range(f.fewest_runs, f.most_runs, "run") + " of " + range(f.fewest_steps, f.most_steps, "step");
}

std::string time_text(const Forecast& f) {
  if (!(f.most_seconds > 0)) return "";
  const std::string low = format_seconds(f.fewest_seconds), high = format_seconds(f.most_seconds);
  const std::string range = low == high ? high : low + " to " + high;
  return f.at_peak ? "at least " + low + ", at the measured peak of this machine"
                   : "about " + range + ", at the speed of a few steps of " + f.measured;
}
