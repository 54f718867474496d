#include "forecast.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <string>
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

// The runs of a cell, trained or not.
struct CellWork {
  double each = 0;  // operations of a run
  size_t fewest = 0, most = 0;
};

CellWork work_of(const Comparison& c, size_t cell, const std::vector<double>& operations) {
  const size_t points = points_of(c);
  // Take the mean over the combinations of --tune, because the best one is not known yet.
  const auto first = operations.begin() + static_cast<std::ptrdiff_t>(cell * points);
  const double all = std::accumulate(first, first + static_cast<std::ptrdiff_t>(points), 0.);
  CellWork work{all / static_cast<double>(points), c.seeds.size(), c.seeds.size()};
  if (c.tuning.empty() || c.tuned_by(cell) != cell) return work;
  const size_t made = tuning_runs_made(c, cell);
  work.fewest += std::max(made, points);
  work.most += made + tuning_runs_left(c, cell);
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

// Returns the seconds per operation of run `i` of Comparison::planned. If the run cannot even start, the time is
// unknown; training will report the error.
double seconds_per_operation(const Comparison& c, size_t i, double operations, bool& at_peak) {
  const TrainOptions o = in_force(c.planned[i]);
  at_peak = !can_be_timed(o);
  try {
    return at_peak ? 1 / measure_flops(o.config.matmul) : time_run(c, c.planned[i]) / operations;
  } catch (const std::exception&) {
    return NAN;
  }
}

// What decides how long an operation takes: longer in a small model.
using Size = std::tuple<std::string, int, int>;  // the size's name, layers, channels
Size size_of(const TrainOptions& o) { return {o.size, o.config.n_layer, o.config.channels}; }

// Returns the seconds per operation of each cell, measured on the largest model of the cell's size.
std::vector<double> speeds_of_cells(const Comparison& c, const std::vector<double>& operations, Forecast& f) {
  std::map<Size, size_t> largest;
  for (size_t i = 0; i < c.planned.size(); ++i) {
    const auto [of_size, is_new] = largest.emplace(size_of(c.planned[i]), i);
    if (operations[i] > operations[of_size->second]) of_size->second = i;
  }
  f.sizes = largest.size();
  use_threads(threads_of_run(c));
  std::map<Size, double> speeds;
  double most = 0;
  for (const auto& [size, i] : largest) {
    bool at_peak = false;
    speeds[size] = seconds_per_operation(c, i, operations[i], at_peak);
    f.at_peak |= at_peak;
    if (operations[i] > most) f.measured = c.grid.cells[i / points_of(c)].name;
    most = std::max(most, operations[i]);
  }
  std::vector<double> of_cells;
  for (size_t cell = 0; cell < c.grid.cells.size(); ++cell)
    of_cells.push_back(speeds[size_of(c.planned[cell * points_of(c)])]);
  return of_cells;
}

}  // namespace

Forecast forecast(const Comparison& c) {
  const std::vector<double> operations = operations_of(c);
  std::vector<CellWork> work;
  Forecast f;
  for (size_t cell = 0; cell < c.grid.cells.size(); ++cell) {
    const CellWork& own = work.emplace_back(work_of(c, cell, operations));
    f.fewest_runs += own.fewest;
    f.most_runs += own.most;
    f.fewest_flops += own.each * static_cast<double>(own.fewest);
    f.most_flops += own.each * static_cast<double>(own.most);
    f.run_flops.push_back(own.each);
  }
  std::tie(f.fewest_steps, f.most_steps) = range_of_steps(c.planned);
  f.run_seconds.assign(work.size(), NAN);
  if (c.trained.runs >= f.most_runs) return f;
  const std::vector<double> speeds =
      c.command.train.quiet ? std::vector<double>(work.size(), NAN) : speeds_of_cells(c, operations, f);
  const double share = c.options().jobs * static_cast<double>(c.shard.count);
  for (size_t cell = 0; cell < work.size(); ++cell) {
    const CellWork& own = work[cell];
    const double trained = c.cells[cell].trained_flops;
    f.run_seconds[cell] = own.each * speeds[cell];
    f.fewest_seconds += std::max(0., own.each * static_cast<double>(own.fewest) - trained) * speeds[cell] / share;
    f.most_seconds += std::max(0., own.each * static_cast<double>(own.most) - trained) * speeds[cell] / share;
  }
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
                   : "about " + range + ", at the speed of a few steps of " + f.measured +
                         (f.sizes > 1 ? " and of the largest of each other size" : "");
}

std::string flops_text(const Forecast& f) {
  const std::string low = format("%.3g", f.fewest_flops), high = format("%.3g", f.most_flops);
  return (low == high ? high : low + " to " + high) + " FLOPs";
}
