#pragma once
// The cost of a model: bytes, and floating-point operations per token.

#include "layers/config/tensors.hpp"
#include "layers/config/config.hpp"

// The longest sample that training prints.
inline constexpr int kSampleTokens = 600;

// Memory of the program itself: its code and libraries, and a few threads' stacks and packed panels. It is 12 MB with
// GNU's OpenMP and 13 MB with LLVM's; one number between them gives every build the same forecast.
inline constexpr size_t kProgramBytes = 24 << 19;

// The best weights are copied so that training goes on while they are written. Training waits for more bytes than this.
inline constexpr size_t kMostBestCopy = 64 << 20;

struct MemoryNeed {
  size_t weights = 0, gradients = 0, activations = 0;
  size_t moments = 0;  // state of the optimizer
  size_t scratch = 0;  // scratch memory of the optimizer
  size_t cache = 0;    // keys and values while sampling
  size_t padding = 0;  // unused rest of each buffer's last page
  size_t best = 0;     // a copy of the best weights
  size_t profile = 0;  // Admin's pass before the first step, as far as it exceeds cache + best
  size_t watched = 0;  // what diagnostics compare a step with
  size_t other() const { return cache + padding + best + profile + watched + kProgramBytes; }
  size_t total() const { return weights + gradients + moments + activations + scratch + other(); }
};
// Returns the bytes for training steps on B sequences and for samples between them. `state` and `scratch` are the
// optimizer's floats. `table` is the model's; its frozen matrices need no memory for gradients. Throws
// std::overflow_error.
MemoryNeed memory_of_training(const Config& config, int B, const std::vector<TensorSpec>& table, size_t state,
                              size_t scratch);
MemoryNeed memory_of_training(const Config& config, int B);  // everything trains, without an optimizer
// Returns the bytes for evaluating B sequences of T tokens, or for sampling T tokens. Throws std::overflow_error.
MemoryNeed memory_of_inference(const Config& config, int B, int T);

// Floating-point operations per token of a training step (a multiply-add is two): the matrices in the blocks, the
// classifier, the gates of norms, the mixing of residual streams, and attention within its window, the causal half if
// it is causal. With an encoder, those of a token of a target and of a token of its source, each of which sees a whole
// source. Backward counts twice as much as forward (Chowdhery et al. 2022, arXiv 2204.02311, appendix B). The rest of
// norms, activations, softmax and recomputation do not count.
double flops_per_token(const Config& config);

// Counts the same if parts of the model's `table` are frozen: a frozen matrix has no dW = dyᵀ x.
double flops_per_token(const Config& config, const std::vector<TensorSpec>& table);

// Returns how many rows a token has in the gate of a norm: one for each of its experts or streams, or one.
double rows_of_gate(const TensorSpec& spec, const Config& config);

// Operations per token that Config::recompute adds for repeated products.
double flops_run_again(const Config& config);

// The number of trained parameters.
size_t count_parameters(const std::vector<TensorSpec>& table);
size_t count_parameters(const Config& config);

// Returns the number of the expert that a tensor belongs to if tokens choose it, else -1.
int expert_of(const TensorSpec& spec);

// A token activates k of E experts. Counts experts 0 to k − 1 as active and all others as idle.
bool is_idle(const TensorSpec& spec, const Config& config);
size_t count_active_parameters(const Config& config, const std::vector<TensorSpec>& table);

// Returns the number of keys that a query of `layer` sees, on average over the context.
double keys_seen(const Config& config, int layer);
