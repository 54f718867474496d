#pragma once
// The cost of a model: bytes, and floating-point operations per token.

#include "layers/config/tensors.hpp"
#include "layers/config/config.hpp"

// The longest sample that training prints.
inline constexpr int kSampleTokens = 600;

// The program itself: its code and libraries, the stacks and packed panels of a few threads. 9 MB with GNU's OpenMP and
// 10 MB with LLVM's: one number between them, so that every build gives the same forecast.
inline constexpr size_t kProgramBytes = 19 << 19;

struct MemoryNeed {
  size_t weights = 0, gradients = 0, activations = 0;
  size_t moments = 0;  // the optimizer's state
  size_t scratch = 0;  // the optimizer's
  size_t cache = 0;    // keys and values of a sample
  size_t padding = 0;  // the rest of the last page of each buffer
  size_t other() const { return cache + padding + kProgramBytes; }
  size_t total() const { return weights + gradients + moments + activations + scratch + other(); }
};
// Bytes of a training step on B sequences, and of a sample between steps, with so many floats of the optimizer's state
// and scratch memory. Matrices of `table`, that of the model, that do not train need no gradients. Throws
// std::overflow_error.
MemoryNeed memory_of_training(const Config& config, int B, const std::vector<TensorSpec>& table, size_t state,
                              size_t scratch);
MemoryNeed memory_of_training(const Config& config, int B);  // all of it trains, and there is no optimizer
// Bytes of evaluating B sequences of T tokens, or of sampling T tokens. Throws std::overflow_error.
MemoryNeed memory_of_inference(const Config& config, int B, int T);

// Floating-point operations per token of a training step (a multiply-add is two): the matrices in the blocks, the
// classifier, the mixing of residual streams, and the causal half of attention within its window. Backward counts twice
// as much as forward (Chowdhery et al. 2022, arXiv 2204.02311, appendix B). Norms, activations, softmax and
// recomputation do not count.
double flops_per_token(const Config& config);

// The same if only part of `table`, that of the model, trains: a frozen matrix has no dW = dyᵀ x.
double flops_per_token(const Config& config, const std::vector<TensorSpec>& table);

// Operations per token that Config::recompute adds: products that are run again.
double flops_run_again(const Config& config);

// The number of trained parameters.
size_t count_parameters(const std::vector<TensorSpec>& table);
size_t count_parameters(const Config& config);

// The number of the expert that a tensor belongs to, if tokens choose it, or -1.
int expert_of(const TensorSpec& spec);

// A token uses k of E experts, whichever. The first k count for them: of the others no parameter is active.
bool is_idle(const TensorSpec& spec, const Config& config);
size_t count_active_parameters(const Config& config, const std::vector<TensorSpec>& table);

// Keys that a query of `layer` sees, on average over the context.
double keys_seen(const Config& config, int layer);
