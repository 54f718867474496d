#pragma once
// The grid of a comparison, as written on the command line.
//
//   placement=post,pre norm=layernorm,rmsnorm + placement=none       the four combinations, and one more cell
//   placement=post,pre seed=1,2,3                                    two cells, each with three seeds

#include <string>
#include <utility>
#include <vector>

using GridKey = std::pair<std::string, std::string>;  // ("placement", "post"): an option of `train`, and its value
using Point = std::vector<int>;  // for each option of --tune, the number of a value

struct GridCell {
  std::string name;  // "placement=post,norm=rmsnorm"; "model" if it has no keys
  std::vector<GridKey> keys;

  std::string value(const std::string& key) const;  // "" if this cell does not set it
  GridCell without(const std::string& key) const;   // "placement=post" for "placement=post,size=d2" without size
};

struct Grid {
  std::vector<std::string> keys;  // all cells' keys in the order given, without `seed`
  std::vector<GridCell> cells;
  std::vector<std::string> seeds;  // empty if `seed` was not a key

  bool has(const std::string& key) const;
};

// Throws std::invalid_argument for unknown keys, empty lists, repeated cells, and unions with different seeds.
Grid parse_grid(const std::vector<std::string>& words);

// Returns the words of a grid with one more, "size=d2,d3", in each of its unions.
std::vector<std::string> with_key(const std::vector<std::string>& words, const std::string& key);

// An option of --tune and the values to try: "lr=3e-4,1e-3,3e-3", or "warmup=5%,20%".
struct TunedOption {
  std::string key;
  std::vector<double> values;  // in ascending order
  bool percent = false, whole = false;

  // Returns value `i`, counted from 0, as written. Below 0 and beyond the last, values continue by the ratio of the two
  // nearest, in two digits: after 3e-3 and 1e-2 comes 3.3e-2. Throws std::invalid_argument if the values end before
  // that.
  std::string value(int i) const;
};

// The options of --tune.
struct Tuning {
  std::vector<TunedOption> options;  // empty if nothing is tuned

  bool empty() const { return options.empty(); }
  std::vector<Point> combinations() const;  // all combinations of values; one empty point without options
  std::vector<GridKey> keys(const Point& point) const;  // throws as value() does
  bool contains(const Point& point) const;  // false beyond the values that the user gave
};

// Throws std::invalid_argument for an unknown or repeated key, and for fewer than two values.
Tuning parse_tuning(const std::vector<std::string>& words);
