#include "init_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>

#include "data/host/format.hpp"
#include "layers/model/size.hpp"
#include "data/options/settings.hpp"
#include "data/run/trainer.hpp"
#include "data/options/grid.hpp"
#include "data/host/machine.hpp"
#include "data/options/command_line.hpp"

namespace {

// A cell of the grid: the options of each of its seeds.
struct Cell {
  GridCell grid;
  std::vector<TrainOptions> seeds;
};

void refuse_keys_without_effect(const Grid& grid) {
  TrainOptions scratch;
  std::vector<std::string> known = {"batch", "accumulate", "data-seed"};
  for (const Setting& setting : settings_of(scratch, false)) known.push_back(setting.name);
  for (const std::string& key : grid.keys)
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw std::invalid_argument("--grid: " + key + " changes nothing before the first step (keys are the options of "
                                  "the model, batch, accumulate, data-seed and seed)");
}

std::vector<Cell> cells_of(const Command& command, const Grid& grid) {
  std::vector<std::string> seeds = grid.seeds;
  if (seeds.empty()) seeds.push_back(std::to_string(command.train.seed));
  std::vector<Cell> cells;
  for (const GridCell& cell : grid.cells) {
    cells.push_back({cell, {}});
    for (const std::string& seed : seeds) {
      std::vector<GridKey> keys = cell.keys;
      keys.emplace_back("seed", seed);
      cells.back().seeds.push_back(train_options(command.words, keys));
    }
  }
  return cells;
}

Dataset load_for(const TrainOptions& o, const std::vector<Cell>& cells) {
  if (o.data.empty()) throw std::invalid_argument("--data is missing: name a text file");
  int context = 1;
  for (const Cell& cell : cells) context = std::max(context, cell.seeds[0].config.context);
  return load_dataset(o, nullptr, context);
}

// Says now what would be wrong with the last cell.
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
    MemoryNeed need = memory_of_training(o.config, o.batch);
    need.moments = 0;
    check_memory(need.total());
    return true;
  } catch (const std::runtime_error&) {  // more than the machine has, or than can be counted
    return false;
  }
}

// What step 1 of a training with these options would see; empty where numbers are not finite.
Statistics look_inside(const TrainOptions& o, const Dataset& data) {
  TrainingState state(Model(o.config), o.batch, o.config.context, kGradientsOnly);
  initialise(state.model, o.seed);
  PassStatistics pass(state.model);
  try {
    training_step(state, micro_batches(data, o, 0), {o.adamw, o.clip, o.seed}, 0, 0, &pass);
  } catch (const Diverged&) {
    return {};
  }
  add_tensor_statistics(pass.rows, state.model);
  sort_by_layer(pass.rows);
  return pass.rows;
}

// ---- the table -------------------------------------------------------------------------------------------

// Of one cell, layer by layer, added up over its seeds.
struct Profile {
  std::vector<double> rms, gradient;  // of the stream, of ffn.down.weight
  std::string state = "ok";

  void add(const Statistics& rows, int layers) {
    rms.resize(layers), gradient.resize(layers);
    for (const Statistic& s : rows) {
      if (s.part == "stream" && s.what == "rms") rms[s.layer] += s.value;
      if (s.part == "ffn.down.weight" && s.what == "grad_norm") gradient[s.layer] += s.value;
    }
  }
  double ratio() const {
    const auto [low, high] = std::minmax_element(gradient.begin(), gradient.end());
    return *high / *low;
  }
};

void print_head(int width) {
  std::printf("%-*s  %-29s  %s\n", width, "", "rms of the stream, by layer", "gradient norm of ffn.down, by layer");
  std::printf("%-*s  %9s %9s %9s  %9s %9s %9s\n", width, "cell", "first", "middle", "last", "first", "last", "max/min");
}

void print_row(int width, const std::string& name, const Profile& p, double seeds) {
  std::printf("%-*s  ", width, name.c_str());
  if (p.state == "ok") {
    const size_t L = p.rms.size();
    const std::string ratio = std::isfinite(p.ratio()) ? format("%.4g", p.ratio()) : "-";  // ReZero begins with 0
    std::printf("%9.4g %9.4g %9.4g  %9.4g %9.4g %9s\n", p.rms[0] / seeds, p.rms[L / 2] / seeds, p.rms[L - 1] / seeds,
                p.gradient[0] / seeds, p.gradient[L - 1] / seeds, ratio.c_str());
  } else {
    std::printf("%s\n", p.state.c_str());
  }
  std::fflush(stdout);
}

// The slope of the straight line through (log x, log y) with the least squares; NaN for fewer than two different x.
double log_log_slope(const std::vector<std::pair<double, double>>& points) {
  double mean_x = 0, mean_y = 0, xx = 0, xy = 0;
  const double n = static_cast<double>(points.size());
  for (const auto& [x, y] : points) mean_x += std::log(x) / n, mean_y += std::log(y) / n;
  for (const auto& [x, y] : points) {
    xx += (std::log(x) - mean_x) * (std::log(x) - mean_x);
    xy += (std::log(x) - mean_x) * (std::log(y) - mean_y);
  }
  return xx > 0 ? xy / xx : NAN;
}

// Cells that differ in `layers` alone, and how the last layer's gradient goes with depth.
void print_slopes(int width, const std::vector<Cell>& cells, const std::vector<Profile>& profiles) {
  std::vector<std::string> names;
  std::map<std::string, std::vector<std::pair<double, double>>> points;
  for (size_t i = 0; i < cells.size(); ++i) {
    std::string name;
    for (const auto& [key, value] : cells[i].grid.keys)
      if (key != "layers") name += (name.empty() ? "" : ",") + key + "=" + value;
    if (name.empty()) name = "all";
    if (!points.count(name)) names.push_back(name);
    auto& of_name = points[name];
    if (profiles[i].state == "ok") of_name.emplace_back(profiles[i].rms.size(), profiles[i].gradient.back());
  }
  std::printf("\n%-*s  slope: the last layer's gradient grows as depth to this power\n", width, "");
  for (const std::string& name : names) {
    const double slope = log_log_slope(points[name]);
    std::printf("%-*s  %9s\n", width, name.c_str(), std::isnan(slope) ? "-" : format("%+.2f", slope).c_str());
  }
}

// ---- the file --------------------------------------------------------------------------------------------

std::unique_ptr<WholeFile> open_csv(const InitReportOptions& options, const Grid& grid) {
  if (options.out.empty()) return nullptr;
  if (std::filesystem::exists(options.out) && !options.force)
    throw std::runtime_error(options.out + " is there already: --force replaces it");
  auto file = std::make_unique<WholeFile>(options.out);
  std::string header = "cell";
  for (const std::string& key : grid.keys) header += "," + key;
  file->write(header + ",seed,step,layer,part,what,value\n");
  return file;
}

void write_rows(WholeFile& file, const Statistics& rows, const Cell& cell, const Grid& grid, uint64_t seed) {
  std::string prefix = '"' + cell.grid.name + '"';
  for (const std::string& key : grid.keys) prefix += "," + cell.grid.value(key);
  prefix += "," + std::to_string(seed) + ",1,";
  for (const Statistic& row : rows) file.write(prefix + csv_row(row));
}

Profile profile_of(const Cell& cell, const Grid& grid, const Dataset& data, WholeFile* file) {
  Profile profile;
  for (const TrainOptions& o : cell.seeds) {
    if (!fits(o)) return {{}, {}, "does not fit in memory"};
    const Statistics rows = look_inside(o, data);
    if (rows.empty()) return {{}, {}, "not finite"};
    profile.add(rows, o.config.n_layer);
    if (file) write_rows(*file, rows, cell, grid, o.seed);
  }
  return profile;
}

}  // namespace

void run_init_report(const Command& command) {
  const Grid grid = parse_grid(command.init_report.grid);
  refuse_keys_without_effect(grid);
  std::vector<Cell> cells = cells_of(command, grid);
  use_threads(command.train.threads);
  const Dataset data = load_for(command.train, cells);
  resolve_cells(cells, data.tokenizer.vocabulary());
  const std::unique_ptr<WholeFile> file = open_csv(command.init_report, grid);

  size_t width = 4;
  for (const Cell& cell : cells) width = std::max(width, cell.grid.name.size());
  std::vector<Profile> profiles;
  print_head(static_cast<int>(width));
  for (const Cell& cell : cells) {
    profiles.push_back(profile_of(cell, grid, data, file.get()));
    print_row(static_cast<int>(width), cell.grid.name, profiles.back(), static_cast<double>(cell.seeds.size()));
  }
  if (std::find(grid.keys.begin(), grid.keys.end(), "layers") != grid.keys.end())
    print_slopes(static_cast<int>(width), cells, profiles);
  if (!file) return;
  file->finish();
  file->publish();
  std::printf("\nstatistics  %s\n", command.init_report.out.c_str());
}
