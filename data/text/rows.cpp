#include "rows.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

void Rows::add(std::span<const TokenWindow> row) {
  windows_.insert(windows_.end(), row.begin(), row.end());
  ends_.push_back(windows_.size());
  int length = 0, sources = 0;
  for (const TokenWindow& window : row) {
    targets_ += static_cast<size_t>(window.targets);
    length += window.length;
    sources += window.source_length;
  }
  longest_ = std::max({longest_, length, sources});
}

std::span<const TokenWindow> Rows::operator[](size_t r) const {
  const size_t begin = r == 0 ? 0 : ends_[r - 1];
  return {windows_.data() + begin, ends_[r] - begin};
}

Rows one_per_row(const std::vector<TokenWindow>& windows) {
  Rows rows;
  for (const TokenWindow& window : windows) rows.add(window);
  return rows;
}

namespace {

int longer_part(const TokenWindow& window) { return std::max(window.length, window.source_length); }

// A row that is being filled, with the places that are left for tokens and for tokens of sources.
struct OpenRow {
  std::vector<TokenWindow> windows;
  int left, sources_left;

  int space() const { return std::min(left, sources_left); }
  void add(const TokenWindow& window) {
    windows.push_back(window);
    left -= window.length;
    sources_left -= window.source_length;
  }
};

}  // namespace

Rows packed_rows(const std::vector<TokenWindow>& windows, int T) {
  std::vector<size_t> order(windows.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return longer_part(windows[i]); });
  std::vector<OpenRow> rows;
  std::vector<std::vector<size_t>> rows_with(static_cast<size_t>(T) + 1);  // by the space that is left
  std::set<int> spaces;                                                     // the spaces that some row has left
  for (const size_t i : order) {
    const auto space = spaces.lower_bound(longer_part(windows[i]));
    size_t row = rows.size();
    if (space == spaces.end()) {
      rows.push_back({{}, T, T});
    } else {
      std::vector<size_t>& candidates = rows_with[*space];
      row = candidates.back();
      candidates.pop_back();
      if (candidates.empty()) spaces.erase(space);
    }
    rows[row].add(windows[i]);
    const int left = rows[row].space();
    rows_with[left].push_back(row);
    if (left > 0) spaces.insert(left);
  }
  Rows packed;
  for (const OpenRow& row : rows) packed.add(row.windows);
  return packed;
}
