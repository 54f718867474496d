#include "grid_cells.hpp"

#include <algorithm>
#include <stdexcept>

#include "data/options/command_line.hpp"
#include "data/options/command_settings.hpp"

std::vector<CellOptions> cells_of(const Command& command, const Grid& grid) {
  std::vector<std::string> seeds = grid.seeds;
  if (seeds.empty()) seeds.push_back(std::to_string(command.train.seed));
  std::vector<CellOptions> cells;
  for (const GridCell& cell : grid.cells) {
    cells.emplace_back().grid = cell;
    for (const std::string& seed : seeds) {
      std::vector<GridKey> keys = cell.keys;
      keys.emplace_back("seed", seed);
      cells.back().seeds.push_back(parse_words(words_of(command), keys).train);
    }
  }
  return cells;
}

Dataset load_for(const Command& command, const std::vector<CellOptions>& cells) {
  TrainOptions o = command.train;
  if (o.data.empty()) throw std::invalid_argument("--data is missing: name a text file");
  int context = 1;
  for (const CellOptions& cell : cells) context = std::max(context, cell.seeds[0].config.context);
  o.out = command.init_report.out;
  return load_dataset(o, nullptr, context);
}
