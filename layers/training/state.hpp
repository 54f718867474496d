#pragma once
// The state of a training step, and its arguments.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "group.hpp"
#include "layers/model/model.hpp"
#include "optimizer.hpp"

// Thrown if training cannot continue, because a number is not finite or the loss has exploded.
struct Diverged {
  int64_t step;
  std::string what, tensor;  // "loss" or "gradient"; the first tensor with a NaN or an infinity, or ""
  bool exploded = false;     // finite, but too large to be useful

  std::string message() const;
};

// The functions of a step. The textbook has its own with the same arguments (layers/textbook/step.hpp).
struct StepFunctions {
  decltype(&model_loss_and_gradients) loss_and_gradients;
  decltype(&gradient_norm) norm;
  decltype(&clip_factor) clip;
  Optimizers optimizers;  // if empty, the step ends with the gradients
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
  int B, T;                          // sequences in a micro-batch, and tokens in each
  Activations activations;
  Buffer optimizer_state, scratch;   // for this rank's shard
  std::shared_ptr<Group> group;
  std::vector<Bucket> buckets;       // in the order of the gradients
  std::vector<Shard> shards;         // of all ranks; with one rank, one part with all tensors
  std::vector<Buffer> lane_sums;     // gradients of lanes that wait for other lanes

  // Chooses the optimizer of every tensor in the model's table.
  TrainingState(Model model, int B, int T, const StepFunctions& functions = kFastStep,
                std::shared_ptr<Group> group = std::make_shared<Group>());

  const Shard& shard() const { return shards[group->rank]; }
  const float* gradients_of(const ShardPart& part) const { return model.gradients.get() + part.begin; }
};

// Returns rows [first, first + count) of a batch.
Batch rows_of(Batch batch, int first, int count);

// The micro-batches of a step.
struct MicroBatches {
  int count;
  int64_t targets;  // counted targets in all micro-batches
  Batch all;        // their rows
  std::shared_ptr<const void> owner = nullptr;  // of the numbers that `all` points to; null: the caller

  Batch batch(int micro) const { return rows_of(all, micro * (all.B / count), all.B / count); }
};

// Divides the rows of a batch among `count` micro-batches. Keeps its pointers.
MicroBatches micro_batches(const Batch& all, int count, std::shared_ptr<const void> owner = nullptr);

struct StepOptions {
  OptimizerOptions optimizer;
  double clip = 1;            // largest ‖g‖; 0 never clips
  uint64_t dropout_seed = 1;
  int lanes = 1;              // a power of two that divides the number of micro-batches
};

// Called during a step: in the last micro-batch's backward, and before and after the update. If rank 0 has an observer,
// every rank needs one; the others may ignore what they see.
struct StepObserver : Observer {
  void block(int, const float*, const BlockSaved&, const float*, const Batch&) override {}
  void outside(const StackActivations&, const float*, const Batch&, bool) override {}
  virtual void before_update() {}  // the gradients are complete; may overwrite the activations
  virtual void after_update() {}
};
