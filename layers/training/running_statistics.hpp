#pragma once
// Keeps BatchNorm's running statistics over the micro-batches of a step, possibly on several ranks.

#include <span>
#include <vector>

#include "group.hpp"
#include "layers/model/model.hpp"

// Running statistics follow the order of the micro-batches, whichever rank computes them. So each micro-batch starts
// with zeros and leaves its part. apply() adds all parts in order.
class RunningStatistics {
 public:
  RunningStatistics(Model& model, int micro_batches);
  void clear();               // call before a micro-batch
  void keep_part(int micro);  // call after it
  void apply(Group& group);   // call after the last

 private:
  std::vector<std::span<float>> tensors;
  std::vector<float> running;
  std::vector<double> parts;  // per micro-batch, in the order of the tensors
};
