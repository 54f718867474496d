#include "grid.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "settings.hpp"
#include "names.hpp"

namespace {

using Words = std::vector<std::string>;

// The options that a cell can set.
Words keys_of_train() {
  TrainOptions scratch;
  Words known;
  for (const Setting& setting : settings_of(scratch)) known.push_back(setting.name);
  return known;
}

// "placement=post,pre" → placement, {post, pre}.
std::pair<std::string, Words> key_and_values(const std::string& word, const std::string& option) {
  static const Words known = keys_of_train();
  const size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  if (std::find(known.begin(), known.end(), key) == known.end())
    throw std::invalid_argument(option + ": unknown key '" + key + "': " + did_you_mean(key, known) +
                                " (any option of train_gpt train, e.g. placement=post,pre)");
  Words values;
  std::istringstream list(equals == word.npos ? "" : word.substr(equals + 1));
  for (std::string value; std::getline(list, value, ',');)
    if (!value.empty() && std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  if (values.empty()) throw std::invalid_argument(option + " " + key + " has no values: write " + key + "=a,b");
  return {key, values};
}

void add_new(Words& list, const Words& more) {
  for (const std::string& word : more)
    if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
}

// All combinations of what stands between two "+".
std::vector<GridCell> product(const Words& words, Grid& grid) {
  std::vector<GridCell> cells = {{}};
  for (const std::string& word : words) {
    const auto [key, values] = key_and_values(word, "--grid");
    if (key == "seed") {
      add_new(grid.seeds, values);
      continue;
    }
    add_new(grid.keys, {key});
    std::vector<GridCell> more;
    for (const GridCell& cell : cells)
      for (const std::string& value : values) {
        GridCell next = cell;
        if (!cell.value(key).empty())
          throw std::invalid_argument("--grid names " + key + " twice: write " + key + "=a,b");
        next.name += (next.name.empty() ? "" : ",") + key + "=" + value;
        next.keys.emplace_back(key, value);
        more.push_back(next);
      }
    cells = std::move(more);
  }
  for (GridCell& cell : cells)
    if (cell.keys.empty()) cell.name = "model";
  return cells;
}

}  // namespace

std::string GridCell::value(const std::string& key) const {
  for (const auto& [name, value] : keys)
    if (name == key) return value;
  return "";
}

Grid parse_grid(const std::vector<std::string>& words) {
  Grid grid;
  Words part;
  const auto close = [&] {
    for (GridCell& cell : product(part, grid)) {
      for (const GridCell& other : grid.cells)
        if (other.name == cell.name) throw std::invalid_argument("--grid has the cell " + cell.name + " twice");
      grid.cells.push_back(std::move(cell));
    }
    part.clear();
  };
  for (const std::string& word : words)
    if (word == "+") {
      close();
    } else {
      part.push_back(word);
    }
  close();
  return grid;
}

Tuning parse_tuning(const std::string& word) {
  const auto [key, values] = key_and_values(word, "--tune");
  Tuning tuning{key, {}};
  for (const std::string& value : values) {
    char* end = nullptr;
    const double x = std::strtod(value.c_str(), &end);
    if (*end || !(x > 0)) throw std::invalid_argument("--tune " + key + " takes numbers above 0, not '" + value + "'");
    tuning.values.push_back(x);
  }
  std::sort(tuning.values.begin(), tuning.values.end());
  tuning.values.erase(std::unique(tuning.values.begin(), tuning.values.end()), tuning.values.end());
  if (tuning.values.size() < 2)
    throw std::invalid_argument("--tune " + key + " needs two values or more to choose from");
  return tuning;
}

std::string option_text(double value) { return toml(value); }
