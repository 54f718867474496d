#include "coordinate_check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <optional>
#include <stdexcept>

#include "data/files/files.hpp"
#include "data/host/machine.hpp"
#include "data/options/values.hpp"
#include "data/run/leader.hpp"
#include "data/run/step_inputs.hpp"
#include "data/strings/format.hpp"
#include "grid_cells.hpp"
#include "data/strings/notes.hpp"
#include "layers/model/initialize.hpp"
#include "layers/model/presets.hpp"
#include "layers/training/coordinates.hpp"

namespace {

// The sizes that one table compares.
struct Axis {
  const char *option, *name;
  std::vector<int> sizes;  // ascending
  void (*set)(Config& config, int size);
};

// Sizes that a user gives in proportion to the channels stay in proportion.
void set_width(Config& c, int channels) {
  for (const Width& width : kWidths) c.*width.size = scaled(c, width, channels);
  c.channels = channels;
}
void set_depth(Config& c, int layers) { c.n_layer = layers; }

std::vector<int> sizes_of(const std::string& option, const std::vector<std::string>& lists) {
  std::vector<int> sizes;
  for (const std::string& list : lists)
    for (size_t begin = 0; begin <= list.size(); begin = list.find(',', begin) + 1) {
      const std::string text = list.substr(begin, list.find(',', begin) - begin);
      sizes.push_back(static_cast<int>(parse_number(option, text, 1, 1 << 20, true)));
      if (list.find(',', begin) == list.npos) break;
    }
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  if (sizes.size() == 1)
    throw std::invalid_argument("--" + option + " names one size: name two or more, as in --" + option + " 64,128,256");
  return sizes;
}

std::vector<Axis> axes_of(const InitReportOptions& o) {
  std::vector<Axis> axes;
  if (!o.widths.empty()) axes.push_back({"widths", "channels", sizes_of("widths", o.widths), set_width});
  if (!o.depths.empty()) axes.push_back({"depths", "layers", sizes_of("depths", o.depths), set_depth});
  return axes;
}

// A base size that is open is the smallest size of the check, or else the model's.
void close_base(Config& c, const std::vector<Axis>& axes) {
  if (c.parametrization == Parametrization::sp) return;
  const auto smallest = [&](void (*set)(Config&, int), int own) {
    for (const Axis& axis : axes)
      if (axis.set == set) return axis.sizes.front();
    return own;
  };
  if (c.base_channels == 0) c.base_channels = smallest(set_width, c.channels);
  if (c.base_layers == 0) c.base_layers = smallest(set_depth, c.n_layer);
}

// The options of a model of a size.
TrainOptions sized(TrainOptions o, const Axis& axis, int size, const std::vector<Axis>& axes, int vocabulary) {
  Config& c = o.config;
  close_base(c, axes);
  axis.set(c, size);
  set_vocabulary(c, vocabulary);
  c = resolved(c);
  if (c.branch_warmup != BranchWarmup::none)
    throw std::invalid_argument("--widths and --depths compare the first steps, in which --branch-warmup takes the "
                                "branches out: leave it out");
  return o;
}

std::vector<std::vector<Change>> measure(const TrainOptions& o, const Dataset& data, int64_t steps) {
  TrainingState state(model_to_train(o), o.batch, o.config.context, step_functions(o));
  initialize(state.model, o.seed);
  const auto batches = [&](int64_t step) { return micro_batches(data, o, step); };
  return changes_by_step(state, {static_cast<int>(steps), o.rate.lr, step_options(o), batches});
}

// The changes of a cell's models: of each part by size and step, the geometric mean over seeds.
struct Table {
  std::vector<std::vector<std::vector<double>>> logs;  // (part, size, step), sums of logarithms
  std::string failure;
};

void write_rows(WholeFile& file, const std::string& prefix, const std::vector<std::vector<Change>>& steps) {
  for (size_t step = 0; step < steps.size(); ++step)
    for (const Change& change : steps[step])
      file.write(prefix + std::to_string(step + 1) + "," +
                 (change.layer == kOutside ? "" : std::to_string(change.layer)) + "," + change.part + "," +
                 format("%.6g", change.rms) + "\n");
}

Table table_of(const CellOptions& cell, const Axis& axis, const std::vector<Axis>& axes, const Dataset& data,
               int64_t steps, std::optional<WholeFile>& file) {
  Table table;
  table.logs.assign(std::size(kCheckedParts),
                    {axis.sizes.size(), std::vector<double>(static_cast<size_t>(steps))});
  for (const TrainOptions& o : cell.seeds)
    for (size_t i = 0; i < axis.sizes.size(); ++i) {
      std::vector<std::vector<Change>> changes;
      try {
        changes = measure(sized(o, axis, axis.sizes[i], axes, data.tokenizer.vocabulary()), data, steps);
      } catch (const Diverged& diverged) {
        table.failure = std::to_string(axis.sizes[i]) + " " + axis.name + ": " + diverged.message();
        return table;
      }
      for (size_t part = 0; part < std::size(kCheckedParts); ++part)
        for (size_t step = 0; step < changes.size(); ++step)
          table.logs[part][i][step] += std::log(size_of_change(changes[step], kCheckedParts[part]));
      if (file)
        write_rows(*file, '"' + cell.grid.name + "\"," + std::to_string(o.seed) + "," + axis.name + "," +
                              std::to_string(axis.sizes[i]) + ",", changes);
    }
  return table;
}

double slope(const Table& table, const Axis& axis, size_t part, size_t step, double seeds) {
  std::vector<std::pair<double, double>> points;
  for (size_t i = 0; i < axis.sizes.size(); ++i)
    points.emplace_back(axis.sizes[i], std::exp(table.logs[part][i][step] / seeds));
  return log_log_slope(points);
}

void print_table(const CellOptions& cell, const Axis& axis, const Table& table, int64_t steps) {
  const TrainOptions& o = cell.seeds[0];
  std::printf("\n%s: %s\n", cell.grid.name.c_str(),
              axis.set == set_width ? counted(o.config.n_layer, "layer").c_str()
                                    : counted(o.config.channels, "channel").c_str());
  if (!table.failure.empty()) {
    std::printf("%s\n", table.failure.c_str());
    return;
  }
  const double seeds = static_cast<double>(cell.seeds.size());
  std::printf("%-10s", axis.name);
  for (const int size : axis.sizes) std::printf(" %9d", size);
  std::printf("   slope at step 1 %4lld\n", static_cast<long long>(steps));
  for (size_t part = 0; part < std::size(kCheckedParts); ++part) {
    std::printf("%-10s", kCheckedParts[part]);
    for (size_t i = 0; i < axis.sizes.size(); ++i)
      std::printf(" %9.3g", std::exp(table.logs[part][i].back() / seeds));
    std::printf("   %+15.2f %+4.2f\n", slope(table, axis, part, 0, seeds),
                slope(table, axis, part, static_cast<size_t>(steps) - 1, seeds));
  }
  std::fflush(stdout);
}

}  // namespace

void check_coordinates(const Command& command) {
  const InitReportOptions& report = command.init_report;
  const std::vector<Axis> axes = axes_of(report);
  const std::vector<CellOptions> cells = cells_of(command, parse_grid(report.grid));
  use_threads(command.train.threads);
  std::optional<WholeFile> file;
  if (!report.out.empty()) check_output(report.out, report.force);
  const Dataset data = load_for(command, cells);
  for (const CellOptions& cell : cells)  // reports an error in the last one before the first step
    for (const TrainOptions& o : cell.seeds)
      for (const Axis& axis : axes)
        for (const int size : axis.sizes) sized(o, axis, size, axes, data.tokenizer.vocabulary());
  if (!report.out.empty()) file.emplace(report.out).write("cell,seed,axis,size,step,layer,part,change\n");
  for (const std::string& note : data.notes) print_note(note);
  std::printf("root mean square of the change after %s at a constant rate of %g\n",
              counted(static_cast<double>(report.steps), "step").c_str(), command.train.rate.lr);
  for (const CellOptions& cell : cells)
    for (const Axis& axis : axes)
      print_table(cell, axis, table_of(cell, axis, axes, data, report.steps, file), report.steps);
  if (!file) return;
  file->publish();
  std::printf("\nchanges     %s\n", report.out.c_str());
}
