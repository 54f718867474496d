#pragma once
// What a training step reads and updates, and how it is asked for.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "group.hpp"
#include "layers/model/model.hpp"
#include "optimizer.hpp"

// Thrown when training cannot go on: a number is not finite, or the loss has exploded.
struct Diverged {
  int64_t step;
  std::string what, tensor;  // "loss" or "gradient"; the first tensor with a NaN or an infinity, "" if there is none
  bool exploded = false;     // finite, but too large to be of use

  std::string message() const;
};

// The functions of a step. Those of the textbook (layers/textbook/step.hpp) take the same arguments.
struct StepFunctions {
  decltype(&model_loss_and_gradients) loss_and_gradients;
  decltype(&gradient_norm) norm;
  decltype(&clip_factor) clip;
  Optimizers optimizers;  // empty: the step ends with the gradients
  Update (*update)(const Optimizer& row);
};
inline Update fast_update(const Optimizer& row) { return row.update; }
inline constexpr StepFunctions kFastStep = {model_loss_and_gradients, gradient_norm, clip_factor, kAdamWAlone,
                                            fast_update};
inline constexpr StepFunctions kGradientsOnly = {model_loss_and_gradients, gradient_norm, clip_factor, {},
                                                 fast_update};

// The state that a step reads and updates.
struct TrainingState {
  Model model;
  StepFunctions functions;
  int B, T;                          // sequences in a micro-batch, tokens in each
  Activations activations;
  Buffer optimizer_state, scratch;   // of the shard
  std::vector<int> tokens, targets;  // (B,T) of the newest micro-batch
  std::shared_ptr<Group> group;
  std::vector<Bucket> buckets;       // in the order of the gradients
  std::vector<Shard> shards;         // of all ranks; the shard of a single rank is one part with all tensors
  std::vector<Buffer> lane_sums;     // gradients of lanes that wait for those they are added to

  // Chooses the optimizer of every tensor in the model's table.
  TrainingState(Model model, int B, int T, const StepFunctions& functions = kFastStep,
                std::shared_ptr<Group> group = std::make_shared<Group>());

  const Shard& shard() const { return shards[group->rank]; }
  const float* gradients_of(const ShardPart& part) const { return model.gradients.get() + part.begin; }
};

// The micro-batches of a step.
struct MicroBatches {
  int count;
  int64_t targets;  // that count, in all of them
  std::function<void(int* tokens, int* targets, int micro)> fill;  // writes (B,T) each
};
// `count` micro-batches, contiguous in memory. Keeps the pointers.
MicroBatches micro_batches(const int* tokens, const int* targets, int count, int B, int T);

struct StepOptions {
  OptimizerOptions optimizer;
  double clip = 1;            // largest ‖g‖; 0: no clipping
  uint64_t dropout_seed = 1;
  int lanes = 1;              // a power of two that divides the number of micro-batches
};

// Called during a step: in the backward of its last micro-batch, and before and after the update. If rank 0 has an
// observer, every rank needs one; the others may ignore what they see.
struct StepObserver : Observer {
  void block(int, const float*, const BlockSaved&, const float*, int, int) override {}
  void outside(const Activations&, const float*, int, int) override {}
  virtual void before_update() {}  // the gradients are complete; may overwrite the activations
  virtual void after_update() {}
};
