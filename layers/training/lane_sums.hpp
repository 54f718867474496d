#pragma once
// The sum over the micro-batches of a step: within a lane one after the other, then lane by lane as group.hpp says,
// on all ranks.

#include <cstdint>

#include "state.hpp"

// Leaves the gradient of the step in model.gradients, or on several ranks that of this rank's shard, and updates
// BatchNorm's running statistics. Returns the sum of the losses over all targets, in nats, added in the order of the
// micro-batches. `last` observes the last micro-batch; null: nobody. Throws Diverged.
double add_micro_batches(TrainingState& s, const MicroBatches& batches, const StepOptions& options, int64_t step,
                         Observer* last);
