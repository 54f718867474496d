#pragma once
// A hash table from pairs of tokens to a number.

#include <bit>
#include <cstddef>
#include <cstdint>
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
