#include "grid.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <sstream>
#include <stdexcept>

#include "data/host/errors.hpp"
#include "names.hpp"
#include "settings.hpp"

namespace {

using Words = std::vector<std::string>;

void add_new(Words& list, const std::string& word) {
  if (std::find(list.begin(), list.end(), word) == list.end()) list.push_back(word);
}

// "placement=post,pre" → placement, {post, pre}.
std::pair<std::string, Words> key_and_values(const std::string& word, const std::string& option) {
  TrainOptions scratch;
  const Words known = names_of(settings_of(scratch));
  const size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  if (std::find(known.begin(), known.end(), key) == known.end())
    refuse(option + ": unknown key '" + key + "': " + did_you_mean(key, known) +
           " (any option of train_gpt train, e.g. placement=post,pre)");
  Words values;
  std::istringstream list(equals == word.npos ? "" : word.substr(equals + 1));
  for (std::string value; std::getline(list, value, ',');)
    if (!value.empty()) add_new(values, value);
  if (values.empty()) refuse(option + " " + key + " has no values: write " + key + "=a,b");
  return {key, values};
}

// Each cell with each of the values of a key.
std::vector<GridCell> multiplied(const std::vector<GridCell>& cells, const std::string& key, const Words& values) {
  std::vector<GridCell> product;
  for (const GridCell& cell : cells)
    for (const std::string& value : values) {
      if (!cell.value(key).empty()) refuse("--grid names " + key + " twice: write " + key + "=a,b");
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

Grid parse_grid(const std::vector<std::string>& words) {
  Grid grid;
  std::vector<GridCell> cells = {{}};  // the combinations since the last "+"
  const auto close = [&] {
    for (GridCell& cell : cells) {
      if (cell.keys.empty()) cell.name = "model";
      for (const GridCell& other : grid.cells)
        if (other.name == cell.name) refuse("--grid has the cell " + cell.name + " twice");
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
    if (key != "seed") add_new(grid.keys, key), cells = multiplied(cells, key, values);
    else for (const std::string& value : values) add_new(grid.seeds, value);
  }
  close();
  return grid;
}

Tuning parse_tuning(const std::string& word) {
  const auto [key, values] = key_and_values(word, "--tune");
  std::set<double> numbers;
  for (const std::string& value : values) {
    char* end = nullptr;
    const double x = std::strtod(value.c_str(), &end);
    if (*end || !(x > 0)) refuse("--tune " + key + " takes numbers above 0, not '" + value + "'");
    numbers.insert(x);
  }
  if (numbers.size() < 2) refuse("--tune " + key + " needs at least two values to choose from");
  return {key, {numbers.begin(), numbers.end()}};
}
