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

std::vector<Bucket> buckets_of(const std::vector<TensorSpec>& table) {
  std::vector<Bucket> buckets;
  int layers = 0;  // of all stacks
  for (const TensorSpec& spec : table) layers = std::max(layers, spec.layer + 1);
  int layer = kOutside;
  for (const TensorSpec& spec : table) {
    if (spec.layer != kOutside) layer = spec.layer;
    else if (layers > 0 && layer + 1 == layers) layer = kAfterLayers;  // otherwise the ends of two stacks meet here
    if (!spec.trained) continue;
    if (buckets.empty() || buckets.back().layer != layer) buckets.push_back({layer, {}});
    buckets.back().table.push_back(spec);
  }
  return buckets;
}

namespace {

ShardPart part_of(const std::vector<TensorSpec>& table, int rank, int ranks) {
  const size_t all = count_parameters(table);
  const auto cut = [&](int r) { return static_cast<size_t>(static_cast<double>(all) * r / ranks); };
  ShardPart part;
  size_t before = 0;
  for (const TensorSpec& spec : table) {
    const size_t size = spec.size();
    // The first piece of this tensor at or after the cut.
    const size_t unit = spec.optimizer && spec.optimizer->whole ? size : kStrip;
    const auto place = [&](size_t at) { return at <= before ? 0 : std::min(size, round_up(at - before, unit)); };
    const size_t begin = place(cut(rank)), end = place(cut(rank + 1));
    before += size;
    if (begin == end) continue;
    TensorSpec slice = spec;
    if (end - begin < size) slice.shape = {static_cast<int>(end - begin)};
    slice.offset += begin;
    slice.gradient += begin;
    part.table.push_back(slice);
  }
  if (part.table.empty()) return part;
  part.begin = part.table.front().gradient;
  part.floats = part.table.back().gradient + part.table.back().size() - part.begin;
  for (TensorSpec& slice : part.table) slice.gradient -= part.begin;
  return part;
}

Shard shard_of(const std::vector<Bucket>& buckets, int rank, int ranks) {
  Shard shard;
  for (const Bucket& bucket : buckets) {
    shard.parts.push_back(part_of(bucket.table, rank, ranks));
    shard.floats += shard.parts.back().floats;
    shard.state = place_state(shard.parts.back().table, shard.state);
  }
  return shard;
}

}  // namespace

std::vector<Shard> shards_of(const std::vector<TensorSpec>& table, int ranks) {
  const std::vector<Bucket> buckets = buckets_of(table);
  std::vector<Shard> shards;
  for (int rank = 0; rank < ranks; ++rank) shards.push_back(shard_of(buckets, rank, ranks));
  return shards;
}
