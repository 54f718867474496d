#pragma once
// What a training step costs, by formula: bytes and floating-point operations.

#include <string>
#include <vector>

#include "layers/model/config.hpp"

struct MemoryNeed {
  size_t weights = 0, gradients = 0, moments = 0, activations = 0;
  size_t total() const { return weights + gradients + moments + activations; }
};
// Bytes of a step on B sequences. Throws std::overflow_error.
MemoryNeed memory_of_training(const Config& config, int B);
// Bytes of evaluating B sequences of T tokens, or of sampling so many. Throws std::overflow_error.
MemoryNeed memory_of_inference(const Config& config, int B, int T);

// A number, and the formula that it is the value of: "3·L·C² + 3·L·C". The letters are those of layers/README.md, and
//   K   keys that a query sees, on average over positions and layers
//   R   rows of logits that are there at a time
// What the wiring makes equal has one letter: C stands for H·D too where they are the same, and H for KV.
struct Amount {
  double number = 0;
  std::string formula;  // "" where the number is 0
};

enum class Part { embedding, norms, gains, qkv, attention, o, up, activation, down, residual, classifier, scratch, logits };

// What a part of the model has, and what it does in a step.
struct PartCost {
  const char* name;
  Amount parameters{};     // that are trained
  Amount multiply_adds{};  // of matrix products, for each token, forward; backward has twice as many
  Amount floats{};         // for each token, that lie in memory until backward; of scratch and logits, that all blocks share
  double intensity = 0;  // operations of a forward product for each byte that it has to move at least
};

// One row for each Part, in their order: what there is to train, to calculate and to keep, with each tensor in one row.
std::vector<PartCost> cost_of_parts(const Config& config, int B);

// Operations for each token of a step, a multiply-add being two: of the matrices in the blocks, the classifier, and the
// causal half of attention, as far as its window reaches; forward once and backward twice (Chowdhery et al. 2022, arXiv
// 2204.02311, appendix B). What --recompute does again is not counted, nor norms, activations and softmax.
double flops_per_token(const Config& config);

// Speed as a share of what it would be if this machine did nothing but multiply and add, as fast as it was measured to:
// the model flops utilization, MFU. The first call measures the machine, in 0.1 s. A speed above what was measured counts
// as the new maximum: something else ran meanwhile.
class Utilization {
 public:
  explicit Utilization(const Config& config);
  double of(double tokens_per_second);

 private:
  Matmul matmul_;
  double work_, most_ = 0;  // operations a token, and a second
};
