#include "group.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "layers/model/size.hpp"
#include "optimizer.hpp"

Lanes lanes_of(int rank, int ranks, int lanes) {
  const int part = ranks - 1 - rank;
  const auto begin = [&](int p) { return static_cast<int>(static_cast<int64_t>(p) * lanes / ranks); };
  return {begin(part), begin(part + 1) - begin(part)};
}

std::vector<Lanes> subtrees(Lanes range) {
  std::vector<Lanes> roots;
  for (int lane = range.first; lane < range.end(); lane = roots.back().end()) {
    const int aligned = lane == 0 ? range.end() : lane & -lane;  // the largest power of two that divides it
    roots.push_back({lane, static_cast<int>(std::bit_floor(
                               static_cast<unsigned>(std::min(aligned, range.end() - lane))))});
  }
  return roots;
}

Shard shard_of(const std::vector<TensorSpec>& table, int rank, int ranks) {
  const size_t all = count_parameters(table);
  const auto cut = [&](int r) { return static_cast<size_t>(static_cast<double>(all) * r / ranks); };
  Shard shard;
  size_t before = 0;
  for (const TensorSpec& spec : table) {
    if (!spec.trained) continue;
    const size_t size = spec.size();
    // The first piece of this tensor at the cut or past it.
    const auto place = [&](size_t at) { return at <= before ? 0 : std::min(size, round_up(at - before, kPiece)); };
    const size_t begin = place(cut(rank)), end = place(cut(rank + 1));
    before += size;
    if (begin == end) continue;
    TensorSpec slice = spec;
    slice.shape = {static_cast<int>(end - begin)};
    slice.offset += begin, slice.gradient += begin;
    shard.table.push_back(slice);
  }
  if (shard.table.empty()) return shard;
  shard.begin = shard.table.front().gradient;
  shard.floats = shard.table.back().gradient + shard.table.back().size() - shard.begin;
  for (TensorSpec& slice : shard.table) slice.gradient -= shard.begin;
  return shard;
}

std::vector<Shard> shards_of(const std::vector<TensorSpec>& table, int ranks) {
  std::vector<Shard> shards;
  for (int rank = 0; rank < ranks; ++rank) shards.push_back(shard_of(table, rank, ranks));
  return shards;
}
