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

// A row for 1, 2, 4, ... ranks: the micro-batches, the memory and the bytes sent of the rank that has most of them, and
// with a bandwidth and a speed the times. Where there are more ranks than micro-batches, a step has more of them.
std::string ranks_text(const TrainOptions& options, const std::vector<TensorSpec>& table, const RanksAsked& asked);
