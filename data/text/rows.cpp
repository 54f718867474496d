#include "rows.hpp"

#include <algorithm>
#include <numeric>
#include <set>

void Rows::add(std::span<const TokenWindow> row) {
  windows_.insert(windows_.end(), row.begin(), row.end());
  ends_.push_back(windows_.size());
  int length = 0;
  for (const TokenWindow& window : row) {
    targets_ += static_cast<size_t>(window.targets);
    length += window.length;
  }
  longest_ = std::max(longest_, length);
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

Rows packed_rows(const std::vector<TokenWindow>& windows, int T) {
  std::vector<size_t> order(windows.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return windows[a].length > windows[b].length; });
  std::vector<std::vector<TokenWindow>> rows;
  std::vector<std::vector<size_t>> rows_with(static_cast<size_t>(T) + 1);  // by the space that is left
  std::set<int> spaces;                                                     // the spaces that some row has left
  for (const size_t i : order) {
    const TokenWindow& window = windows[i];
    const auto space = spaces.lower_bound(window.length);
    int left = T;
    size_t row = rows.size();
    if (space == spaces.end()) {
      rows.emplace_back();
    } else {
      left = *space;
      row = rows_with[left].back();
      rows_with[left].pop_back();
      if (rows_with[left].empty()) spaces.erase(space);
    }
    rows[row].push_back(window);
    left -= window.length;
    rows_with[left].push_back(row);
    if (left > 0) spaces.insert(left);
  }
  Rows packed;
  for (const std::vector<TokenWindow>& row : rows) packed.add(row);
  return packed;
}
