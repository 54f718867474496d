#include "grid.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "command_settings.hpp"
#include "data/strings/format.hpp"
#include "foreign_names.hpp"
#include "toml.hpp"

namespace {

using Words = std::vector<std::string>;

constexpr const char* kNoKeys = "model";  // the name of a cell without keys

void add_new(Words& list, const std::string& word) {
  if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
}

// Splits "placement=post,pre" into placement and {post, pre}. Replaces an earlier name of an option by its present
// name.
std::pair<std::string, Words> key_and_values(const std::string& word, const std::string& option) {
  const size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  const TrainSetting* setting = find_setting(train_settings(), key);
  if (!setting || setting->group.empty()) {  // without a group: written by the program alone
    const std::string near = did_you_mean(key, names_of(train_settings()));
    throw std::invalid_argument(option + ": unknown key '" + key + "'" + (near.empty() ? "" : ": " + near) +
                                " (any option of train_gpt train, e.g. placement=post,pre)");
  }
  Words values;
  std::istringstream list(equals == word.npos ? "" : word.substr(equals + 1));
  for (std::string value; std::getline(list, value, ',');)
    if (std::find(values.begin(), values.end(), value) != values.end())
      throw std::invalid_argument(option + " " + key + " has the value " + value + " twice");
    else if (value.empty()) throw std::invalid_argument(option + " " + key + " has an empty value");
    else values.push_back(value);
  if (values.empty()) throw std::invalid_argument(option + " " + key + " has no values: write " + key + "=a,b");
  return {setting->name, values};
}

// Rejects "placement=post pre", which has a space instead of a comma.
void refuse_spaces(const Words& words, const std::string& option) {
  const Words known = names_of(train_settings());
  for (size_t i = 1; i < words.size(); ++i) {
    const auto is_value = [&](const std::string& word) {
      return word != "+" && word.find('=') == word.npos && std::find(known.begin(), known.end(), word) == known.end();
    };
    if (words[i - 1].find('=') == std::string::npos || !is_value(words[i])) continue;
    std::string list = words[i - 1];
    for (size_t k = i; k < words.size() && is_value(words[k]); ++k)
      list += (list.ends_with(',') || list.ends_with('=') ? "" : ",") + words[k];
    throw std::invalid_argument(option + ": '" + words[i] + "' has no option before it: write " + list +
                                ", with commas and no spaces");
  }
}

// Splits words that were quoted together, "placement=post,pre seed=1,2", where the next key or a "+" begins. A value
// may have spaces of its own.
Words unquoted(const Words& words) {
  Words all;
  for (const std::string& word : words) {
    std::istringstream pieces(word);
    bool first = true;
    for (std::string piece; pieces >> piece; first = false) {
      const bool begins = first || piece == "+" || all.back() == "+" || piece.find('=') != piece.npos;
      if (begins) all.push_back(piece);
      else all.back() += " " + piece;
    }
    if (first) all.push_back(word);  // nothing but spaces
  }
  return all;
}

// Returns each cell combined with each of a key's values.
std::vector<GridCell> multiplied(const std::vector<GridCell>& cells, const std::string& key, const Words& values) {
  std::vector<GridCell> product;
  for (const GridCell& cell : cells)
    for (const std::string& value : values) {
      if (!cell.value(key).empty())
        throw std::invalid_argument("--grid names " + key + " twice: write " + key + "=a,b");
      GridCell& next = product.emplace_back(cell);
      next.name += (next.keys.empty() ? "" : ",") + key + "=" + value;
      next.keys.emplace_back(key, value);
    }
  return product;
}

}  // namespace

std::string GridCell::value(const std::string& key) const {
  for (const auto& [name, value] : keys)
    if (name == key) return value;
  return "";
}

GridCell GridCell::without(const std::string& key) const {
  GridCell rest;
  for (const GridKey& own : keys) {
    if (own.first == key) continue;
    rest.name += (rest.keys.empty() ? "" : ",") + own.first + "=" + own.second;
    rest.keys.push_back(own);
  }
  if (rest.keys.empty()) rest.name = kNoKeys;
  return rest;
}

bool Grid::has(const std::string& key) const { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

std::vector<std::string> with_key(const std::vector<std::string>& given, const std::string& key) {
  Words words = unquoted(given);
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == "+") words.insert(words.begin() + static_cast<std::ptrdiff_t>(i++), key);
  words.push_back(key);
  return words;
}

namespace {

// Takes over the seeds that a part of the grid names, if it names some.
void add_seeds(Grid& grid, const Words& part) {
  if (grid.seeds.empty()) grid.seeds = part;
  if (part.empty() || std::ranges::is_permutation(part, grid.seeds)) return;
  const auto list = [](const Words& seeds) {
    std::string text;
    for (const std::string& seed : seeds) text += (text.empty() ? "" : ",") + seed;
    return text;
  };
  throw std::invalid_argument("--grid has the seeds " + list(grid.seeds) + " and " + list(part) +
                              ": all cells are compared on the same ones; name them once");
}

}  // namespace

Grid parse_grid(const std::vector<std::string>& given) {
  const Words words = unquoted(given);
  refuse_spaces(words, "--grid");
  Grid grid;
  std::vector<GridCell> cells = {{}};  // the combinations since the last "+"
  Words seeds;                         // named since then
  const auto close = [&] {
    add_seeds(grid, std::exchange(seeds, {}));
    for (GridCell& cell : cells) {
      if (cell.keys.empty()) cell.name = kNoKeys;
      for (const GridCell& other : grid.cells)
        if (other.name == cell.name) throw std::invalid_argument("--grid has the cell " + cell.name + " twice");
      grid.cells.push_back(cell);
    }
    cells = {{}};
  };
  for (const std::string& word : words) {
    if (word == "+") {
      close();
      continue;
    }
    const auto [key, values] = key_and_values(word, "--grid");
    if (key != "seed") {
      add_new(grid.keys, key);
      cells = multiplied(cells, key, values);
    }
    else for (const std::string& value : values) add_new(seeds, value);
  }
  close();
  return grid;
}

// ---- tuning ----------------------------------------------------------------------------------------------

namespace {

// Returns the number in "0.01" or "20%", or nothing if it is not a number or below 0.
std::optional<double> number_in(const std::string& value) {
  const std::string digits = value.substr(0, value.size() - value.ends_with('%'));
  char* end = nullptr;
  const double x = std::strtod(digits.c_str(), &end);
  return digits.empty() || *end || !(x >= 0) || std::isinf(x) ? std::nullopt : std::optional(x);
}

TunedOption parse_tuned(const std::string& word) {
  const auto [key, values] = key_and_values(word, "--tune");
  TunedOption option{key, {}, values[0].ends_with('%'), find_setting(train_settings(), key)->takes == "N"};
  std::set<double> numbers;
  for (const std::string& value : values) {
    const auto x = number_in(value);
    if (!x) throw std::invalid_argument("--tune " + key + " takes numbers, not '" + value + "'");
    if (value.ends_with('%') != option.percent)
      throw std::invalid_argument("--tune " + key + ": write all values with %, or none");
    numbers.insert(*x);
  }
  if (numbers.size() < 2) throw std::invalid_argument("--tune " + key + " needs at least two values to choose from");
  option.values = {numbers.begin(), numbers.end()};
  option.whole &= !option.percent;
  return option;
}

// Returns the number that continues `before` and `last` by their ratio, in two digits.
double next_by_ratio(double before, double last, bool whole) {
  const double x = std::strtod(format("%.1e", last * last / before).c_str(), nullptr);
  return whole ? std::round(x) : x;
}

}  // namespace

std::string TunedOption::value(int i) const {
  const int n = static_cast<int>(values.size());
  const bool below = i < 0;
  double before = below ? values[1] : values[size_t(n - 2)], x = below ? values[0] : values[size_t(n - 1)];
  if (i >= 0 && i < n) x = values[size_t(i)];
  for (int more = below ? -i : i - n + 1; more > 0; --more) {
    const double next = before > 0 && x > 0 ? next_by_ratio(before, x, whole) : x;  // 0 has no ratio
    if (below ? next >= x : next <= x)
      throw std::invalid_argument("--tune " + key + ": there is no value next to " + toml(x));
    before = std::exchange(x, next);
  }
  return toml(x) + (percent ? "%" : "");
}

std::vector<Point> Tuning::combinations() const {
  std::vector<Point> points = {{}};
  for (const TunedOption& option : options) {
    std::vector<Point> longer;
    for (const auto& point : points)
      for (int i = 0; i < static_cast<int>(option.values.size()); ++i) longer.emplace_back(point).push_back(i);
    points = longer;
  }
  return points;
}

std::vector<GridKey> Tuning::keys(const Point& point) const {
  std::vector<GridKey> keys;
  for (size_t k = 0; k < point.size(); ++k) keys.emplace_back(options[k].key, options[k].value(point[k]));
  return keys;
}

bool Tuning::contains(const Point& point) const {
  for (size_t k = 0; k < point.size(); ++k)
    if (point[k] < 0 || point[k] >= static_cast<int>(options[k].values.size())) return false;
  return true;
}

Tuning parse_tuning(const std::vector<std::string>& given) {
  const Words words = unquoted(given);
  refuse_spaces(words, "--tune");
  Tuning tuning;
  for (const std::string& word : words) {
    tuning.options.push_back(parse_tuned(word));
    for (size_t k = 0; k + 1 < tuning.options.size(); ++k)
      if (tuning.options[k].key == tuning.options.back().key)
        throw std::invalid_argument("--tune names " + tuning.options[k].key + " twice: write " + tuning.options[k].key +
                                    "=A,B");
  }
  return tuning;
}
