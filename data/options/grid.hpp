#pragma once
// The grid of a comparison, as written on the command line.
//
//   placement=post,pre norm=layernorm,rmsnorm + placement=none       the four combinations, and one cell more
//   placement=post,pre seed=1,2,3                                    two cells, each with three seeds

#include <string>
#include <utility>
#include <vector>

using GridKey = std::pair<std::string, std::string>;  // ("placement", "post"): an option of `train`, and its value
using Point = std::vector<int>;  // the number of a value for each option of --tune

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

// An option of --tune and the values to try: "lr=3e-4,1e-3,3e-3", or "warmup=5%,20%".
struct TunedOption {
  std::string key;
  std::vector<double> values;  // in rising order
  bool percent = false, whole = false;

  // The value number `i`, from 0, as it is written. Those below 0 or beyond the last go on by the ratio of the two
  // values next to them, in two digits: 3e-3 and 1e-2 are followed by 3.3e-2. Throws std::invalid_argument if they end
  // before that.
  std::string value(int i) const;
};

// The options of --tune.
struct Tuning {
  std::vector<TunedOption> options;  // none: nothing is tuned

  bool empty() const { return options.empty(); }
  std::vector<Point> combinations() const;  // of all values; one, which is empty, without options
  std::vector<GridKey> keys(const Point& point) const;  // throws as value() does
  bool contains(const Point& point) const;  // false beyond the values that the user gave
};

// Throws std::invalid_argument for an unknown or repeated key, and for fewer than two values.
Tuning parse_tuning(const std::vector<std::string>& words);
