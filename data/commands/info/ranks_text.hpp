#pragma once
// Shows the cost of a training step on several ranks.

#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "layers/config/tensors.hpp"

struct RanksAsked {
  int ranks;
  double bandwidth;  // each rank's network, in bits per second; 0 if unknown
  double speed;      // one process, in tokens per second; 0 if unknown
};

// Returns a table with a row for 1, 2, 4, ... ranks. A row shows how many micro-batches the busiest rank has, how much
// memory it needs and how many bytes it sends. If bandwidth and speed are known, it also shows the times. If there are
// fewer micro-batches than ranks, the table adds micro-batches to the step.
std::string ranks_text(const TrainOptions& options, const std::vector<TensorSpec>& table, const RanksAsked& asked);
