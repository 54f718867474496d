#pragma once
// What the ranks of a group send each other in a step. A group of one sends nothing.

#include <vector>

#include "group.hpp"
#include "optimizer.hpp"

// Adds the lanes of all ranks, of which each has its `roots` (lanes_of(), subtrees()): in `sum`, the shard of this rank
// is written. The roots are overwritten there. `sum` may be one of them.
// Each rank sends and receives (R − 1)/R of the gradients for every root, as much as a reduce-scatter.
void add_roots(Group& group, const std::vector<Shard>& shards, int lanes, const std::vector<float*>& roots, float* sum);

// Copies the weights of each shard to all ranks.
void gather_weights(Group& group, const std::vector<Shard>& shards, float* weights);

// Copies the optimizer's state of all shards to rank 0, or from there. `whole` has the layout of the gradients; other
// ranks have none.
void gather_state(Group& group, const std::vector<Shard>& shards, const OptimizerState& state, OptimizerState& whole);
void scatter_state(Group& group, const std::vector<Shard>& shards, OptimizerState& state, const OptimizerState& whole);
