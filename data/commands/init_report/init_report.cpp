#include "init_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <stdexcept>

#include "coordinate_check.hpp"
#include "data/host/machine.hpp"
#include "data/options/command_settings.hpp"
#include "data/run/trainer.hpp"
#include "data/strings/format.hpp"
#include "grid_cells.hpp"
#include "data/strings/notes.hpp"
#include "layers/model/initialize.hpp"
#include "layers/model/size.hpp"
#include "layers/training/coordinates.hpp"

namespace {

// A cell of the grid, and the results of its passes.
struct Cell : CellOptions {
  std::string failure;                // why there are no numbers
  std::vector<double> rms, gradient;  // by layer: rms of the stream, gradient of ffn.down.weight; sums over the seeds
};

void refuse_keys_without_effect(const Grid& grid) {
  for (const std::string& key : grid.keys)
    if (const Setting* s = find_setting(train_settings(), key); !s->model && !s->at_start)
      throw std::invalid_argument("--grid: " + key + " changes nothing before the first step (keys are the options of "
                                  "the model, batch, accumulate, data-seed and seed)");
}

// Resolves all cells first, so that an error in the last one is reported before the first pass.
void resolve_cells(std::vector<Cell>& cells, int vocabulary) {
  for (Cell& cell : cells)
    for (TrainOptions& o : cell.seeds) {
      set_vocabulary(o.config, vocabulary);
      try {
        o.config = resolved(o.config);
      } catch (const std::invalid_argument& error) {
        throw std::invalid_argument(cell.grid.name + ": " + error.what());
      }
    }
}

// ---- one pass --------------------------------------------------------------------------------------------

bool fits(const TrainOptions& o) {
  try {
    check_memory(memory_of_training(o.config, o.batch).total());
    return true;
  } catch (const std::runtime_error&) {  // needs more memory than the machine has, or than size_t can hold
    return false;
  }
}

// Returns the diagnostics of the first training step with these options; empty if a number is not finite.
Statistics first_step_statistics(const TrainOptions& o, const Dataset& data) {
  TrainingState state(Model(o.config), o.batch, o.config.context, kGradientsOnly);
  initialize(state.model, o.seed);
  PassStatistics pass(state.model);
  try {
    training_step(state, micro_batches(data, o, 0), {o.optimizer_options, o.clip, o.seed}, 0, 0, &pass);
  } catch (const Diverged&) {
    return {};
  }
  add_tensor_statistics(pass.rows, state.model);
  sort_by_layer(pass.rows);
  return pass.rows;
}

void add_to_sums(Cell& cell, const Statistics& rows, int layers) {
  cell.rms.resize(layers);
  cell.gradient.resize(layers);
  std::vector<double> down(layers);  // sums over all experts
  for (const Statistic& s : rows) {
    if (s.part == "stream" && s.what == "rms") cell.rms[s.layer] += s.value;
    const bool is_down = s.part.starts_with("ffn.") && s.part.ends_with("down.weight");
    if (is_down && s.what == "grad_norm") down[s.layer] = std::hypot(down[s.layer], s.value);
  }
  for (int l = 0; l < layers; ++l) cell.gradient[l] += down[l];
}

// ---- the file --------------------------------------------------------------------------------------------

void open_csv(std::optional<WholeFile>& file, const InitReportOptions& options, const Grid& grid) {
  if (options.out.empty()) return;
  check_output(options.out, options.force);
  std::string header = "cell";
  for (const std::string& key : grid.keys) header += "," + key;
  file.emplace(options.out).write(header + ",seed,step,layer,part,what,value\n");
}

void write_rows(WholeFile& file, const Statistics& rows, const Cell& cell, const Grid& grid, uint64_t seed) {
  std::string prefix = '"' + cell.grid.name + '"';
  for (const std::string& key : grid.keys) prefix += "," + cell.grid.value(key);
  prefix += "," + std::to_string(seed) + ",1,";
  for (const Statistic& row : rows) file.write(prefix + csv_row(row));
}

// ---- the table -------------------------------------------------------------------------------------------

void print_head(int width) {
  std::printf("%-*s  %-29s  %s\n", width, "", "rms of the stream, by layer", "gradient norm of ffn.down, by layer");
  std::printf("%-*s  %9s %9s %9s  %9s %9s %9s\n", width, "cell", "first", "middle", "last", "first", "last", "max/min");
}

void print_row(int width, const Cell& cell) {
  std::printf("%-*s  ", width, cell.grid.name.c_str());
  if (cell.failure.empty()) {
    const double seeds = static_cast<double>(cell.seeds.size());
    const auto [low, high] = std::minmax_element(cell.gradient.begin(), cell.gradient.end());
    const double ratio = *high / *low;  // 0 / 0 for ReZero
    std::printf("%9.4g %9.4g %9.4g  %9.4g %9.4g %9s\n", cell.rms[0] / seeds, cell.rms[cell.rms.size() / 2] / seeds,
                cell.rms.back() / seeds, cell.gradient[0] / seeds, cell.gradient.back() / seeds,
                std::isfinite(ratio) ? format("%.4g", ratio).c_str() : "-");
  } else {
    std::printf("%s\n", cell.failure.c_str());
  }
  std::fflush(stdout);
}

std::string name_without_layers(const GridCell& cell) {
  std::string name;
  for (const auto& [key, value] : cell.keys)
    if (key != "layers") name += (name.empty() ? "" : ",") + key + "=" + value;
  return name.empty() ? "all" : name;
}

// Prints how the last layer's gradient grows with depth, over cells that differ only in `layers`.
void print_slopes(int width, const std::vector<Cell>& cells) {
  std::printf("\n%-*s  slope: the last layer's gradient grows as depth to this power\n", width, "");
  std::set<std::string> printed;
  for (const Cell& cell : cells) {
    const std::string name = name_without_layers(cell.grid);
    if (!printed.insert(name).second) continue;
    std::vector<std::pair<double, double>> points;
    for (const Cell& other : cells)
      if (other.failure.empty() && name_without_layers(other.grid) == name)
        points.emplace_back(other.rms.size(), other.gradient.back());
    const double slope = log_log_slope(points);
    std::printf("%-*s  %9s\n", width, name.c_str(), std::isnan(slope) ? "-" : format("%+.2f", slope).c_str());
  }
}

// Runs one pass per seed and adds up the results.
void look_inside(Cell& cell, const Grid& grid, const Dataset& data, std::optional<WholeFile>& file) {
  for (const TrainOptions& o : cell.seeds) {
    if (!fits(o)) {
      cell.failure = "does not fit in memory";
      return;
    }
    const Statistics rows = first_step_statistics(o, data);
    if (rows.empty()) {
      cell.failure = "not finite";
      return;
    }
    add_to_sums(cell, rows, o.config.n_layer);
    if (file) write_rows(*file, rows, cell, grid, o.seed);
  }
}

}  // namespace

void run_init_report(const Command& command) {
  if (!command.init_report.widths.empty() || !command.init_report.depths.empty()) return check_coordinates(command);
  const Grid grid = parse_grid(command.init_report.grid);
  refuse_keys_without_effect(grid);
  const std::vector<CellOptions> options = cells_of(command, grid);
  std::vector<Cell> cells;
  for (const CellOptions& cell : options) static_cast<CellOptions&>(cells.emplace_back()) = cell;
  use_threads(command.train.threads);
  if (!command.init_report.out.empty()) check_output(command.init_report.out, command.init_report.force);
  const Dataset data = load_for(command, options);
  resolve_cells(cells, data.tokenizer.vocabulary());
  std::optional<WholeFile> file;
  open_csv(file, command.init_report, grid);
  for (const std::string& note : data.notes) print_note(note);

  int width = 4;
  for (const Cell& cell : cells) width = std::max(width, static_cast<int>(cell.grid.name.size()));
  print_head(width);
  for (Cell& cell : cells) {
    look_inside(cell, grid, data, file);
    print_row(width, cell);
  }
  if (std::find(grid.keys.begin(), grid.keys.end(), "layers") != grid.keys.end()) print_slopes(width, cells);
  if (!file) return;
  file->publish();
  std::printf("\nstatistics  %s\n", command.init_report.out.c_str());
}
