#pragma once
// What a training step costs, by formula: bytes and floating-point operations.

#include "../layers/config.hpp"

struct MemoryNeed {
  size_t weights = 0, gradients = 0, moments = 0, activations = 0;
  size_t total() const { return weights + gradients + moments + activations; }
};
// Bytes of a step on B sequences. Throws std::overflow_error.
MemoryNeed memory_of_training(const Config& config, int B);

// Operations for each token of a step, a multiply-add being two: of the matrices in the blocks, the classifier, and the
// causal half of attention, as far as its window reaches; forward once and backward twice (Chowdhery et al. 2022, arXiv
// 2204.02311, appendix B). What --recompute does again is not counted, nor norms, activations and softmax.
double flops_per_token(const Config& config);

// Speed as a share of what it would be if this machine did nothing but multiply and add, as fast as it was measured to:
// the model flops utilization, MFU. Takes 0.1 s at first, and where the share is above 1, which shows that something else
// ran while the machine was measured: then it is measured again.
class Utilization {
 public:
  explicit Utilization(const Config& config);
  double of(double tokens_per_second);

 private:
  Matmul matmul_;
  double work_, most_;  // operations a token, and a second
  int looks_ = 1;
};
