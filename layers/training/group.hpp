#pragma once
// Ranks, the processes that take training steps together, and the order in which they add gradients.
//
// The micro-batches of a step are divided into lanes of equal length, in order. Gradients accumulate within a lane, and
// lanes are added in a binary tree: ((0 + 1) + (2 + 3)) + ... Part p of R has lanes ⌊pG/R⌋ to ⌊(p + 1)G/R⌋ − 1 of G.
// Rank 0 takes the last part, because it observes the last micro-batch; the last rank takes the first part. A rank adds
// the subtrees within its lanes and sends only their roots. So a sum depends on the number of lanes, not on the number
// of ranks.
//
// Each rank updates one part of the weights, its shard, and keeps only that part's optimizer state (ZeRO stage 1,
// Rajbhandari et al. 2020, arXiv 1910.02054). A shard has a part of every layer, so that ranks can exchange one layer's
// gradients while backward computes the previous layers'.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "layers/config/tensors.hpp"

struct Lanes {
  int first, count;

  int end() const { return first + count; }
  Lanes left() const { return {first, count / 2}; }
  Lanes right() const { return {first + count / 2, count / 2}; }
  bool operator==(const Lanes&) const = default;
};
Lanes lanes_of(int rank, int ranks, int lanes);

// Returns the largest subtrees that make up a range, in order.
std::vector<Lanes> subtrees(Lanes range);

// The tensors that train in one layer, before the first layer, or after the last. Backward completes their gradients
// together.
struct Bucket {
  int layer;  // kOutside: before the first; kAfterLayers
  std::vector<TensorSpec> table;
};
inline constexpr int kAfterLayers = 1 << 30;
std::vector<Bucket> buckets_of(const std::vector<TensorSpec>& table);

// The slices of tensors that a rank updates in one bucket. A slice begins at a multiple of kStrip floats in its tensor,
// or is the whole tensor if the optimizer needs that.
struct ShardPart {
  std::vector<TensorSpec> table;  // `offset` counts from the first weight, `gradient` from `begin`, `state` from the
                                  // first state of the rank
  size_t begin = 0, floats = 0;   // its range within the gradients
};

// All slices that a rank updates, one part per bucket. A part may be empty.
struct Shard {
  std::vector<ShardPart> parts;
  size_t floats = 0;  // floats of gradients in all parts
  size_t state = 0;   // floats of optimizer state
};
std::vector<Shard> shards_of(const std::vector<TensorSpec>& table, int ranks);  // for all ranks

// A group of one process. Its functions do nothing, because there is no other rank.
class Group {
 public:
  virtual ~Group() = default;

  int rank = 0, size = 1;
  double timeout = 0;  // the job ends if a rank does not answer for this many seconds; 0 waits forever

  // Copies from rank 0 to all.
  virtual void broadcast(void*, size_t) {}

  // Fills in the other ranks' numbers. Each number must be zero on all ranks except one.
  virtual void collect(std::span<double>) {}

  struct Message {
    int rank;
    float* data;
    size_t floats;
  };
  // Messages underway. Keep their data in place until they have arrived.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    virtual bool has_arrived() { return true; }
    virtual void wait() {}
  };
  // Begins to send and to receive. Messages between two ranks arrive in the order in which they were sent.
  virtual std::unique_ptr<Transfer> start(std::span<const Message>, std::span<const Message>) {
    return std::make_unique<Transfer>();
  }
  void exchange(std::span<const Message> sends, std::span<const Message> receives) { start(sends, receives)->wait(); }
};
