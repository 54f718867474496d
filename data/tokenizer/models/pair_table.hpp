#pragma once
// Pairs of neighboring tokens: a hash table from pairs to a number, and merging.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

constexpr uint32_t kAbsent = ~uint32_t{0};  // no token, no rank

constexpr uint64_t hash_bits(uint64_t x) { return (x ^ x >> 32) * 0x9e3779b97f4a7c15ull >> 20; }

class PairTable {
 public:
  explicit PairTable(size_t most = 0) : entries_(std::bit_ceil(2 * most + 1), {kFree, kAbsent}) {}

  // Returns the value of a pair, or kAbsent if it was not set.
  uint32_t operator()(uint32_t left, uint32_t right) const { return entries_[index_of(pair_key(left, right))].value; }

  // Sets the value of a pair. The constructor's `most` bounds the number of pairs.
  void set(uint32_t left, uint32_t right, uint32_t value) {
    const uint64_t pair = pair_key(left, right);
    entries_[index_of(pair)] = {pair, value};
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Entry {
    uint64_t pair;
    uint32_t value;
  };

  static uint64_t pair_key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }
  size_t index_of(uint64_t pair) const {
    size_t at = hash_bits(pair) & (entries_.size() - 1);
    while (entries_[at].pair != pair && entries_[at].pair != kFree) at = (at + 1) & (entries_.size() - 1);
    return at;
  }

  std::vector<Entry> entries_;
};

// What a pair of neighbors merges into. Pairs with the lowest rank merge first.
struct PairMerge {
  uint32_t rank = kAbsent, token = kAbsent;  // kAbsent: it does not merge
  bool operator==(const PairMerge&) const = default;
};

// Merges neighbors until no pair merges, the leftmost of equal ranks first. merge_of(left, right) returns a PairMerge.
// Keeps a queue of pairs over a linked list of symbols, and skips a pair that has changed since it was queued. Calls
// with_queued(left, right, merge) for each pair of the queue.
template <class MergeOf, class WithQueued = decltype([](uint32_t, uint32_t, PairMerge) {})>
void merge_pairs(std::vector<uint32_t>& symbols, const MergeOf& merge_of, const WithQueued& with_queued = {}) {
  struct Queued {
    PairMerge merge;
    size_t at;
    bool operator<(const Queued& other) const {
      return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : at > other.at;
    }
  };
  const size_t end = symbols.size();
  std::vector<size_t> next(end), previous(end);  // `end` stands for none, also before the first symbol
  std::priority_queue<Queued> queue;
  const auto merge_at = [&](size_t i) { return next[i] == end ? PairMerge() : merge_of(symbols[i], symbols[next[i]]); };
  const auto push = [&](size_t i) {
    const PairMerge merge = merge_at(i);
    if (merge.rank == kAbsent) return;
    queue.push({merge, i});
    with_queued(symbols[i], symbols[next[i]], merge);
  };
  for (size_t i = 0; i < end; ++i) {
    next[i] = i + 1;
    previous[i] = i > 0 ? i - 1 : end;
  }
  for (size_t i = 0; i < end; ++i) push(i);
  while (!queue.empty()) {
    const auto [merge, at] = queue.top();
    queue.pop();
    if (symbols[at] == kAbsent || merge_at(at) != merge) continue;
    const size_t gone = next[at];
    symbols[at] = merge.token;
    symbols[gone] = kAbsent;
    next[at] = next[gone];
    if (next[at] != end) previous[next[at]] = at;
    if (previous[at] != end) push(previous[at]);
    push(at);
  }
  std::erase(symbols, kAbsent);
}
