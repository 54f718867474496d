#pragma once
// One training step: micro-batches → gradients → norm → clip → optimizer.
//
//   g = Σ over micro-batches ∂(sum of losses)/∂w / targets      targets: the number that count, in all micro-batches
//   w ← update(w, min(1, clip / ‖g‖)·g)      then to length 1, if the model has normed weights (normed_weights.hpp)
//
// Losses and gradients are added in group.hpp's order.

#include <cstdint>

#include "state.hpp"

struct StepResult {
  double loss, grad_norm;  // mean over the targets; ‖g‖ before clipping
  bool clipped;
  int64_t targets;         // counted targets
};

// Takes step 0, 1, ... at learning rate `lr`. Throws Diverged if the loss or the gradient is not finite.
StepResult training_step(TrainingState& s, const MicroBatches& batches, const StepOptions& options, int64_t step,
                         double lr, StepObserver* observer = nullptr);
