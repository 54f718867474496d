#include "layer_set.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>

namespace {

[[noreturn]] void fail(const std::string& set) {
  throw std::invalid_argument("'" + set + "' is no set of layers: write all, none, 5 of 6, last 1 of 2, or 0,4,8");
}

// "5 of 6", "last 1 of 2". `count` of every `period` layers.
struct Periodic {
  int count = 0, period = 0;
  bool last = false;

  bool has(int layer) const {
    const int at = layer % period;
    return last ? at >= period - count : at < count;
  }
  std::string text() const {
    return (last ? "last " : "") + std::to_string(count) + " of " + std::to_string(period);
  }
};

// The number that the text begins with, or 0.
int number_at(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

bool is_periodic(const std::string& set, Periodic& found) {
  const size_t of = set.find(" of ");
  if (of == set.npos) return false;
  found.last = set.starts_with("last ");
  found.count = number_at(std::string_view(set).substr(found.last ? 5 : 0));
  found.period = number_at(std::string_view(set).substr(of + 4));
  return found.text() == set && found.count > 0 && found.count <= found.period;
}

bool is_listed(const std::string& set, int layer) {
  const char *at = set.data(), *end = at + set.size();
  bool found = false;
  for (bool more = true; more;) {
    int number = -1;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0 || (next != end && *next != ',')) fail(set);
    found |= number == layer;
    more = next != end;
    at = next + 1;
  }
  return found;
}

}  // namespace

bool has_layer(const std::string& set, int layer) {
  if (set == "all" || set == "none") return set == "all";
  Periodic periodic;
  return is_periodic(set, periodic) ? periodic.has(layer) : is_listed(set, layer);
}

std::string layer_set(const std::vector<bool>& has) {
  const int L = static_cast<int>(has.size());
  const auto fits = [&](const Periodic& set) {
    for (int l = 0; l < L; ++l)
      if (has[l] != set.has(l)) return false;
    return true;
  };
  if (fits({1, 1})) return "all";
  if (fits({0, 1})) return "none";
  for (int period = 2; period <= L; ++period) {
    const int count = static_cast<int>(std::count(has.begin(), has.begin() + period, true));
    for (const bool last : {false, true})
      if (const Periodic set{count, period, last}; fits(set)) return set.text();
  }
  std::string list;
  for (int l = 0; l < L; ++l) {
    if (!has[l]) continue;
    if (!list.empty()) list += ',';
    list += std::to_string(l);
  }
  return list;
}

std::string shortest_layer_set(const std::string& set, int n_layer) {
  std::vector<bool> has(n_layer);
  for (int l = 0; l < n_layer; ++l) has[l] = has_layer(set, l);
  return layer_set(has);
}
