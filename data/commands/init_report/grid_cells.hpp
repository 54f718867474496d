#pragma once
// The cells of init-report's grid, and the text that they read.

#include <string>
#include <vector>

#include "data/options/grid.hpp"
#include "data/options/options.hpp"
#include "data/text/dataset.hpp"

// A cell, and its options for each seed.
struct CellOptions {
  GridCell grid;
  std::vector<TrainOptions> seeds;
};
std::vector<CellOptions> cells_of(const Command& command, const Grid& grid);

// Loads the text for the longest context.
Dataset load_for(const Command& command, const std::vector<CellOptions>& cells);
