#include "exchange.hpp"

#include <algorithm>
#include <bit>

#include "layers/kernels/parallel.hpp"

namespace {

using Message = Group::Message;

struct Root {
  Lanes lanes;
  float* data;
};

// Returns the buffer of the root that has the sum.
float* add_tree(const std::vector<Root>& roots, Lanes lanes, size_t n) {
  const auto root = std::find_if(roots.begin(), roots.end(), [&](const Root& r) { return r.lanes == lanes; });
  if (root != roots.end()) return root->data;
  float* left = add_tree(roots, lanes.left(), n);
  add(left, add_tree(roots, lanes.right(), n), n);
  return left;
}

struct Run {
  size_t begin, end;  // floats
};

// The weights of a shard, without frozen tensors between them.
std::vector<Run> runs_of(const Shard& shard) {
  constexpr size_t kPadding = kAlignment / sizeof(float);
  std::vector<Run> runs;
  for (const TensorSpec& slice : shard.table) {
    const size_t end = slice.offset + slice.size();
    if (runs.empty() || slice.offset >= runs.back().end + kPadding) runs.push_back({slice.offset, end});
    else runs.back().end = end;
  }
  return runs;
}

}  // namespace

RankNeed need_of_rank(const std::vector<Shard>& shards, int rank, int lanes) {
  const int ranks = static_cast<int>(shards.size());
  const Shard& own = shards[rank];
  RankNeed need{0, own.floats, 0, 0};
  size_t roots = 0;
  for (const Lanes& subtree : subtrees(lanes_of(rank, ranks, lanes)))
    need.buffers = std::max(need.buffers, roots++ + std::bit_width(static_cast<unsigned>(subtree.count)) - 1);
  for (int r = 0; r < ranks; ++r) {
    if (r == rank) continue;
    need.received += subtrees(lanes_of(r, ranks, lanes)).size() * kChunk;
    need.sent += roots * shards[r].floats;
  }
  for (const Run& run : runs_of(own)) need.sent += (ranks - 1) * (run.end - run.begin);
  return need;
}

void add_roots(Group& group, const std::vector<Shard>& shards, int lanes, const std::vector<float*>& own, float* sum) {
  if (group.size == 1) return;
  std::vector<Root> roots;
  for (int r = 0; r < group.size; ++r)
    for (const Lanes& subtree : subtrees(lanes_of(r, group.size, lanes))) roots.push_back({subtree, nullptr});
  const Buffer received = allocate((roots.size() - own.size()) * kChunk);
  const size_t longest = std::ranges::max(shards, {}, &Shard::floats).floats;
  for (size_t at = 0; at < longest; at += kChunk) {
    const auto length = [&](int r) { return at < shards[r].floats ? std::min(kChunk, shards[r].floats - at) : 0; };
    const size_t n = length(group.rank);
    std::vector<Message> sends, receives;
    auto root = roots.begin();
    float* place = received.get();  // of the next root of another rank
    for (int r = 0; r < group.size; ++r) {
      const size_t count = subtrees(lanes_of(r, group.size, lanes)).size();
      for (size_t i = 0; i < count; ++i, ++root) {
        if (n == 0) continue;
        root->data = r == group.rank ? own[i] + shards[r].begin + at : place;
        if (r == group.rank) continue;
        place += kChunk;
        receives.push_back({r, root->data, n});
      }
      if (r == group.rank || length(r) == 0) continue;
      for (float* data : own) sends.push_back({r, data + shards[r].begin + at, length(r)});
    }
    group.exchange(sends, receives);
    if (n == 0) continue;  // other shards are longer
    const float* total = add_tree(roots, {0, lanes}, n);
    float* to = sum + shards[group.rank].begin + at;
    if (total != to) std::copy_n(total, n, to);
  }
}

void gather_gradients(Group& group, const std::vector<Shard>& shards, float* gradients) {
  std::vector<Message> all;
  for (int r = 1; r < group.size; ++r) all.push_back({r, gradients + shards[r].begin, shards[r].floats});
  if (group.rank == 0) return group.exchange({}, all);
  Message own = all[group.rank - 1];
  own.rank = 0;
  group.exchange({&own, 1}, {});
}

void gather_weights(Group& group, const std::vector<Shard>& shards, float* weights) {
  std::vector<Message> sends, receives;
  for (int r = 0; r < group.size; ++r) {
    if (r == group.rank) continue;
    for (const Run& run : runs_of(shards[group.rank])) sends.push_back({r, weights + run.begin, run.end - run.begin});
    for (const Run& run : runs_of(shards[r])) receives.push_back({r, weights + run.begin, run.end - run.begin});
  }
  group.exchange(sends, receives);
}

namespace {

// One message per slot between a rank's shard and the whole on rank 0.
void move_state(Group& group, const std::vector<Shard>& shards, const OptimizerState& state,
                const OptimizerState& whole, bool to_whole) {
  std::vector<Message> of_shard, of_whole;
  for (size_t slot = 0; slot < state.size(); ++slot) {
    if (group.rank > 0) of_shard.push_back({0, state[slot].get(), shards[group.rank].floats});
    for (int r = 1; group.rank == 0 && r < group.size; ++r)
      of_whole.push_back({r, whole[slot].get() + shards[r].begin, shards[r].floats});
    if (group.rank > 0) continue;
    float *part = whole[slot].get() + shards[0].begin, *mine = state[slot].get();
    std::copy_n(to_whole ? mine : part, shards[0].floats, to_whole ? part : mine);
  }
  to_whole ? group.exchange(of_shard, of_whole) : group.exchange(of_whole, of_shard);
}

}  // namespace

void gather_state(Group& group, const std::vector<Shard>& shards, const OptimizerState& state, OptimizerState& whole) {
  move_state(group, shards, state, whole, true);
}

void scatter_state(Group& group, const std::vector<Shard>& shards, OptimizerState& state, const OptimizerState& whole) {
  move_state(group, shards, state, whole, false);
}
