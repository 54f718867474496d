#pragma once
// A set of texts, each with a number. Finds those that another text begins with, byte by byte.

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "pair_table.hpp"

class PrefixTree {
 public:
  using Entry = std::pair<std::string_view, uint32_t>;

  // Leaves out empty texts. Of equal texts, the last one counts.
  explicit PrefixTree(std::vector<Entry> entries = {});

  bool empty() const { return number_of_.size() == 1; }

  // Calls with_prefix(length, number) for each text of the set that `text` begins with, the shortest first.
  template <class Call>
  void for_each_prefix(std::string_view text, const Call& with_prefix) const {
    uint32_t node = 0;
    for (size_t length = 1; length <= text.size(); ++length) {
      node = child_of_(node, static_cast<unsigned char>(text[length - 1]));
      if (node == kAbsent) return;
      if (number_of_[node] != kAbsent) with_prefix(length, number_of_[node]);
    }
  }

 private:
  PairTable child_of_;               // a node and the next byte → the next node; the root is 0
  std::vector<uint32_t> number_of_;  // of each node, or kAbsent
};
