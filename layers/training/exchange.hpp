#pragma once
// The messages between the ranks of a group. A group of one process sends none.

#include <memory>
#include <string>
#include <vector>

#include "group.hpp"
#include "optimizer.hpp"

inline constexpr size_t kChunk = 1 << 18;   // most floats in a message of gradients
inline constexpr size_t kWindow = 1 << 24;  // floats that a rank has room to receive; at least a chunk per rank

// What a rank needs in addition to weights, gradients and activations, and what it sends per step, in floats.
struct RankNeed {
  size_t buffers;   // sums of lanes that wait for other lanes
  size_t state;     // the optimizer's state
  size_t received;  // gradients that are arriving from other ranks
  size_t sent;
};
RankNeed need_of_rank(const std::vector<Shard>& shards, int rank, int lanes);

// Adds the lanes of all ranks, one bucket at a time, and overlaps this with backward. `roots` are the sums of this
// rank's subtrees (lanes_of(), subtrees()). The shard's sum is written to the last root; the other roots are scratch
// afterwards. Each rank sends and receives (R − 1)/R of the gradients for every root, as much as a reduce-scatter.
class GradientExchange {
 public:
  GradientExchange(Group& group, const std::vector<Shard>& shards, int lanes, std::vector<float*> roots,
                   size_t window = kWindow);

  void send(size_t bucket);  // call it when the bucket is complete in all roots; begin with the last bucket
  void advance();            // adds what has arrived
  void finish();             // waits for the rest

 private:
  struct Chunk {
    size_t bucket, begin, floats;  // `begin` counts from the first gradient
  };
  void receive_next();
  void add_next();

  Group& group;
  const std::vector<Shard>& shards;
  int lanes;
  std::vector<float*> own;    // roots
  std::vector<Chunk> chunks;  // this rank's shard, in the order of adding
  size_t room, place;         // chunks that fit into `received`; floats of a place
  Buffer received;
  size_t begun = 0, added = 0, last_sent;
  std::vector<std::unique_ptr<Group::Transfer>> receiving, sending;
};

// A tensor as a number that ranks can collect: its position in the table, counted from 1; 0 means no tensor.
double number_of(const TensorSpec* spec, const std::vector<TensorSpec>& table);
std::string tensor_name(double number, const std::vector<TensorSpec>& table);

// Copies the gradients of all shards to rank 0.
void gather_gradients(Group& group, const std::vector<Shard>& shards, float* gradients);

// Begins to copy the weights of a bucket from the ranks that updated them to all ranks.
std::unique_ptr<Group::Transfer> share_weights(Group& group, const std::vector<Shard>& shards, size_t bucket,
                                               float* weights);

// Copies the optimizer state of all shards to rank 0, or from rank 0. `whole` has the layout of the model's `table`;
// other ranks pass null.
void gather_state(Group& group, const std::vector<Shard>& shards, const std::vector<TensorSpec>& table,
                  const float* state, float* whole);
void scatter_state(Group& group, const std::vector<Shard>& shards, const std::vector<TensorSpec>& table, float* state,
                   const float* whole);
