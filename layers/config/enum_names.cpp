#include "enum_names.hpp"

#include <algorithm>

namespace {

// Damerau–Levenshtein (1964, 1966): the fewest insertions, deletions, replacements and swaps of neighbors.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string nearest_name(std::string_view given, const std::vector<std::string>& known) {
  // With more edits the suggestion is probably wrong, which is worse than none.
  size_t least = std::min<size_t>(2, given.size() / 3) + 1;
  std::string nearest;
  for (const std::string& name : known) {
    const size_t edits = given.size() > 64 ? least : edit_distance(given, name);
    if (edits < least) {
      nearest = name;
      least = edits;
    }
  }
  return nearest;
}

std::string unknown_name(std::string_view what, std::string_view given, const std::vector<std::string>& known) {
  std::string message = "unknown " + std::string(what) + " '" + std::string(given) + "'";
  if (known.empty()) return message;
  const std::string nearest = nearest_name(given, known);
  message += nearest.empty() ? ": choose one of" : ": did you mean '" + nearest + "'? (one of";
  for (const auto& name : known) message += " " + name;
  return message + (nearest.empty() ? "" : ")");
}
