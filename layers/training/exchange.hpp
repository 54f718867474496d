#pragma once
// The messages between the ranks of a group. A group of one process sends none.

#include <vector>

#include "group.hpp"
#include "optimizer.hpp"

inline constexpr size_t kChunk = 1 << 18;  // floats that a rank receives from another at once

// What a rank needs in addition to weights, gradients and activations, and what it sends in a step, in floats.
struct RankNeed {
  size_t buffers;   // of gradients: lanes that wait for those they are added to
  size_t state;     // for each number that the optimizer keeps of a weight
  size_t received;  // chunks of the other ranks' gradients
  size_t sent;
};
RankNeed need_of_rank(const std::vector<Shard>& shards, int rank, int lanes);

// Adds the lanes of all ranks. `roots` are the sums of this rank's subtrees (lanes_of(), subtrees()). Writes the sum of
// this rank's shard into `sum`, which may be one of the roots, and overwrites that shard in all of them.
// Each rank sends and receives (R − 1)/R of the gradients for every root, as much as a reduce-scatter.
void add_roots(Group& group, const std::vector<Shard>& shards, int lanes, const std::vector<float*>& roots, float* sum);

// Copies the gradients of all shards to rank 0.
void gather_gradients(Group& group, const std::vector<Shard>& shards, float* gradients);

// Copies the weights of each shard to all ranks.
void gather_weights(Group& group, const std::vector<Shard>& shards, float* weights);

// Copies the optimizer state of all shards to rank 0, or from rank 0. `whole` has the layout of the gradients; other
// ranks have none.
void gather_state(Group& group, const std::vector<Shard>& shards, const OptimizerState& state, OptimizerState& whole);
void scatter_state(Group& group, const std::vector<Shard>& shards, OptimizerState& state, const OptimizerState& whole);
