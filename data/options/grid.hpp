#pragma once
// The grid of a comparison, as written on the command line.
//
//   placement=post,pre norm=layernorm,rmsnorm + placement=none       the four combinations, and one cell more
//   placement=post,pre seed=1,2,3                                    two cells, each with three seeds

#include <string>
#include <utility>
#include <vector>

using GridKey = std::pair<std::string, std::string>;  // ("placement", "post"): an option of `train`, and its value

struct GridCell {
  std::string name;  // "placement=post,norm=rmsnorm"; "model" if it has no keys
  std::vector<GridKey> keys;

  std::string value(const std::string& key) const;  // "" if this cell does not set it
};

struct Grid {
  std::vector<std::string> keys;  // of all cells, in the order in which they were named; without `seed`
  std::vector<GridCell> cells;
  std::vector<std::string> seeds;  // empty if `seed` was not a key
};

// Throws std::invalid_argument for unknown keys, empty lists, and repeated cells.
Grid parse_grid(const std::vector<std::string>& words);

// "lr=3e-4,1e-3,3e-3": a numeric option and the values to try, in rising order.
struct Tuning {
  std::string key;
  std::vector<double> values;
};
// Throws std::invalid_argument for an unknown key, and for fewer than two values.
Tuning parse_tuning(const std::string& word);
