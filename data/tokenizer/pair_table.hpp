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
  explicit PairTable(size_t most = 0) : slots_(std::bit_ceil(2 * most + 1), {kFree, kAbsent}) {}

  // Returns the value of a pair, or kAbsent if it was not set.
  uint32_t operator()(uint32_t left, uint32_t right) const { return slots_[slot_of(joined(left, right))].value; }

  // Sets the value of a pair. The constructor's `most` bounds the number of pairs.
  void set(uint32_t left, uint32_t right, uint32_t value) {
    const uint64_t pair = joined(left, right);
    slots_[slot_of(pair)] = {pair, value};
  }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Slot {
    uint64_t pair;
    uint32_t value;
  };

  static uint64_t joined(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }
  size_t slot_of(uint64_t pair) const {
    size_t at = hash_bits(pair) & (slots_.size() - 1);
    while (slots_[at].pair != pair && slots_[at].pair != kFree) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
};
