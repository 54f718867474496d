#pragma once
// What a training step costs on several ranks, as a table for readers.

#include <string>
#include <vector>

#include "data/options/options.hpp"
#include "layers/config/tensors.hpp"

struct RanksAsked {
  int ranks;
  double bandwidth;  // of each rank's network, bits per second; 0: unknown
  double speed;      // of one process, tokens per second; 0: unknown
};

// A table with a row for each of 1, 2, 4, ... ranks. A row shows how many micro-batches the busiest rank has, how much
// memory it needs and how many bytes it sends. If bandwidth and speed are known, it also shows the times. If there are
// fewer micro-batches than ranks, the table adds micro-batches to the step.
std::string ranks_text(const TrainOptions& options, const std::vector<TensorSpec>& table, const RanksAsked& asked);
