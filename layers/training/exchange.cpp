#include "exchange.hpp"

#include <algorithm>
#include <bit>
#include <string_view>
#include <unordered_map>

#include "layers/kernels/parallel.hpp"

namespace {

using Message = Group::Message;

struct Root {
  Lanes lanes;
  int rank;
  float* data = nullptr;
};

std::vector<Root> roots_of(int ranks, int lanes) {
  std::vector<Root> roots;
  for (int r = 0; r < ranks; ++r)
    for (const Lanes& subtree : subtrees(lanes_of(r, ranks, lanes))) roots.push_back({subtree, r});
  return roots;
}

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

// Returns the runs of weights in a part, without the frozen tensors between them.
std::vector<Run> runs_of(const ShardPart& part) {
  constexpr size_t kPadding = kAlignment / sizeof(float);
  std::vector<Run> runs;
  for (const TensorSpec& slice : part.table) {
    const size_t end = slice.offset + slice.size();
    if (runs.empty() || slice.offset >= runs.back().end + kPadding) runs.push_back({slice.offset, end});
    else runs.back().end = end;
  }
  return runs;
}

// The size of the buffer for received gradients. A place holds one chunk from every root of the other ranks.
struct Room {
  size_t floats, places;  // floats of a place
};
Room room_for(const Shard& shard, size_t foreign_roots, size_t window) {
  size_t longest = 0, chunks = 0;
  for (const ShardPart& part : shard.parts) {
    longest = std::max(longest, std::min(kChunk, part.floats));
    chunks += (part.floats + kChunk - 1) / kChunk;
  }
  const size_t place = foreign_roots * longest;
  return {place, place == 0 ? 0 : std::clamp<size_t>(window / place, 1, chunks)};
}

// Calls f(begin, floats) for each chunk of a part. `begin` counts from the first gradient.
template <class F>
void for_each_chunk(const ShardPart& part, F f) {
  for (size_t at = 0; at < part.floats; at += kChunk) f(part.begin + at, std::min(kChunk, part.floats - at));
}

}  // namespace

RankNeed need_of_rank(const std::vector<Shard>& shards, int rank, int lanes) {
  const int ranks = static_cast<int>(shards.size());
  const Shard& own = shards[rank];
  RankNeed need{0, own.state, 0, 0};
  size_t roots = 0, foreign = 0;
  for (const Lanes& subtree : subtrees(lanes_of(rank, ranks, lanes)))
    need.buffers = std::max(need.buffers, roots++ + std::bit_width(static_cast<unsigned>(subtree.count)) - 1);
  for (int r = 0; r < ranks; ++r) {
    if (r == rank) continue;
    foreign += subtrees(lanes_of(r, ranks, lanes)).size();
    need.sent += roots * shards[r].floats;
  }
  const Room room = room_for(own, foreign, kWindow);
  need.received = room.floats * room.places;
  for (const ShardPart& part : own.parts)
    for (const Run& run : runs_of(part)) need.sent += (ranks - 1) * (run.end - run.begin);
  return need;
}

// ---- gradients -------------------------------------------------------------------------------------------

GradientExchange::GradientExchange(Group& g, const std::vector<Shard>& all, int count, std::vector<float*> roots,
                                   size_t window)
    : group(g), shards(all), lanes(count), own(std::move(roots)), last_sent(all[0].parts.size()) {
  const Shard& shard = shards[group.rank];
  for (size_t bucket = shard.parts.size(); bucket-- > 0;)
    for_each_chunk(shard.parts[bucket], [&](size_t begin, size_t n) { chunks.push_back({bucket, begin, n}); });
  const Room most = room_for(shard, roots_of(group.size, lanes).size() - own.size(), window);
  room = most.places;
  place = most.floats;
  received = allocate(room * place);
  receiving.resize(room);
  while (begun < room) receive_next();
}

void GradientExchange::receive_next() {
  if (begun == chunks.size()) return;
  const size_t slot = begun % room, n = chunks[begun].floats;
  std::vector<Message> messages;
  float* to = received.get() + slot * place;
  for (const Root& root : roots_of(group.size, lanes)) {
    if (root.rank == group.rank) continue;
    messages.push_back({root.rank, to, n});
    to += n;
  }
  receiving[slot] = group.start({}, messages);
  ++begun;
}

void GradientExchange::send(size_t bucket) {
  std::vector<Message> messages;
  for (int r = 0; r < group.size; ++r) {
    if (r == group.rank) continue;
    for_each_chunk(shards[r].parts[bucket], [&](size_t begin, size_t n) {
      for (float* root : own) messages.push_back({r, root + begin, n});
    });
  }
  sending.push_back(group.start(messages, {}));
  last_sent = bucket;
}

void GradientExchange::add_next() {
  const Chunk& chunk = chunks[added];
  std::vector<Root> roots = roots_of(group.size, lanes);
  float* from = received.get() + added % room * place;
  size_t mine = 0;
  for (Root& root : roots) {
    const bool is_own = root.rank == group.rank;
    root.data = is_own ? own[mine++] + chunk.begin : from;
    if (!is_own) from += chunk.floats;
  }
  const float* total = add_tree(roots, {0, lanes}, chunk.floats);
  float* sum = own.back() + chunk.begin;
  if (total != sum) std::copy_n(total, chunk.floats, sum);
  ++added;
  receive_next();
}

void GradientExchange::advance() {
  while (added < chunks.size() && chunks[added].bucket >= last_sent && receiving[added % room]->has_arrived())
    add_next();
}

void GradientExchange::finish() {
  while (added < chunks.size()) {
    receiving[added % room]->wait();
    add_next();
  }
  for (const auto& transfer : sending) transfer->wait();
}

namespace {

// Adds messages for the gradients of another rank's shard, in all its parts.
void add_messages(std::vector<Message>& messages, int rank, const Shard& shard, float* gradients) {
  for (const ShardPart& part : shard.parts)
    if (part.floats > 0) messages.push_back({rank, gradients + part.begin, part.floats});
}

}  // namespace

double number_of(const TensorSpec* spec, const std::vector<TensorSpec>& table) {
  return spec ? static_cast<double>(spec - table.data() + 1) : 0;
}
std::string tensor_name(double number, const std::vector<TensorSpec>& table) {
  return number > 0 ? table[static_cast<size_t>(number) - 1].name : "";
}

void gather_gradients(Group& group, const std::vector<Shard>& shards, float* gradients) {
  std::vector<Message> sends, receives;
  if (group.rank > 0) add_messages(sends, 0, shards[group.rank], gradients);
  for (int r = 1; group.rank == 0 && r < group.size; ++r) add_messages(receives, r, shards[r], gradients);
  group.exchange(sends, receives);
}

// ---- weights and state -----------------------------------------------------------------------------------

std::unique_ptr<Group::Transfer> share_weights(Group& group, const std::vector<Shard>& shards, size_t bucket,
                                               float* weights) {
  std::vector<Message> sends, receives;
  for (int r = 0; r < group.size; ++r) {
    if (r == group.rank) continue;
    for (const Run& run : runs_of(shards[group.rank].parts[bucket]))
      sends.push_back({r, weights + run.begin, run.end - run.begin});
    for (const Run& run : runs_of(shards[r].parts[bucket]))
      receives.push_back({r, weights + run.begin, run.end - run.begin});
  }
  return group.start(sends, receives);
}

namespace {

// One slot of a tensor's slice: its place in a rank's state, and in the whole state.
struct SlotRange {
  size_t shard, whole, floats;
};
std::vector<SlotRange> ranges_of(const Shard& shard, const std::vector<TensorSpec>& table) {
  std::unordered_map<std::string_view, const TensorSpec*> tensors;
  for (const TensorSpec& spec : table) tensors[spec.name] = &spec;
  std::vector<SlotRange> ranges;
  for (const ShardPart& part : shard.parts)
    for (const TensorSpec& slice : part.table) {
      const TensorSpec& tensor = *tensors.at(slice.name);
      const std::vector<TensorSpec> here = state_table(slice), there = state_table(tensor);
      for (size_t slot = 0; slot < here.size(); ++slot) {
        const auto floats = [&](size_t numbers) { return floats_of(here[slot].numbers, numbers); };
        ranges.push_back({here[slot].offset, there[slot].offset + floats(slice.offset - tensor.offset),
                          floats(here[slot].size())});
      }
    }
  return ranges;
}

// Sends one message per slot and slice between a rank's shard and the whole state on rank 0.
void move_state(Group& group, const std::vector<Shard>& shards, const std::vector<TensorSpec>& table, float* state,
                float* whole, bool to_whole) {
  std::vector<Message> of_shard, of_whole;
  if (group.rank > 0) {
    for (const SlotRange& r : ranges_of(shards[group.rank], table)) of_shard.push_back({0, state + r.shard, r.floats});
  } else {
    for (int rank = 1; rank < group.size; ++rank)
      for (const SlotRange& r : ranges_of(shards[rank], table)) of_whole.push_back({rank, whole + r.whole, r.floats});
    for (const SlotRange& r : ranges_of(shards[0], table)) {
      float *there = whole + r.whole, *mine = state + r.shard;
      std::copy_n(to_whole ? mine : there, r.floats, to_whole ? there : mine);
    }
  }
  to_whole ? group.exchange(of_shard, of_whole) : group.exchange(of_whole, of_shard);
}

}  // namespace

// const_cast, because a message does not tell whether its data is read or written.
void gather_state(Group& group, const std::vector<Shard>& shards, const std::vector<TensorSpec>& table,
                  const float* state, float* whole) {
  move_state(group, shards, table, const_cast<float*>(state), whole, true);
}

void scatter_state(Group& group, const std::vector<Shard>& shards, const std::vector<TensorSpec>& table, float* state,
                   const float* whole) {
  move_state(group, shards, table, state, const_cast<float*>(whole), false);
}
