#include "prefix_tree.hpp"

#include <algorithm>

PrefixTree::PrefixTree(std::vector<Entry> entries) : number_of_{kAbsent} {
  std::erase_if(entries, [](const Entry& entry) { return entry.first.empty(); });
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.first < b.first; });
  const auto shared = [](std::string_view a, std::string_view b) {
    return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
  };
  size_t nodes = 0;
  for (size_t i = 0; i < entries.size(); ++i)
    nodes += entries[i].first.size() - (i > 0 ? shared(entries[i].first, entries[i - 1].first) : 0);
  child_of_ = PairTable(nodes);
  number_of_.reserve(nodes + 1);
  for (const auto& [text, number] : entries) {
    uint32_t node = 0;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      uint32_t child = child_of_(node, byte);
      if (child == kAbsent) {
        child = static_cast<uint32_t>(number_of_.size());
        child_of_.set(node, byte, child);
        number_of_.push_back(kAbsent);
      }
      node = child;
    }
    number_of_[node] = number;
  }
}
