#pragma once
// Adds up the micro-batches of a step on all ranks: one after the other within a lane, then the lanes in group.hpp's
// order.

#include <cstdint>

#include "state.hpp"

// Leaves the step's gradient in model.gradients (with several ranks, only this rank's shard), and updates BatchNorm's
// running statistics. Returns the sum of the losses over all targets, in nats, added in the order of the micro-batches.
// `last` observes the last micro-batch, or is null. Throws Diverged.
double add_micro_batches(TrainingState& s, const MicroBatches& batches, const StepOptions& options, int64_t step,
                         Observer* last);
