#pragma once
// BatchNorm's running statistics in a step of several micro-batches, possibly on several ranks.

#include <span>
#include <vector>

#include "group.hpp"
#include "layers/model/model.hpp"

// BatchNorm's running statistics follow the order of the micro-batches, on whatever ranks these are. So each
// micro-batch begins with zeros and leaves its part of the statistics. apply() adds the parts of all.
class RunningStatistics {
 public:
  RunningStatistics(Model& model, int micro_batches);
  void clear();               // before a micro-batch
  void keep_part(int micro);  // after it
  void apply(Group& group);   // after the last

 private:
  std::vector<std::span<float>> tensors;
  std::vector<float> running;
  std::vector<double> parts;  // of each micro-batch, in the order of the tensors
};
