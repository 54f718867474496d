#pragma once
// Adds up the gradients of a step's lanes, in group.hpp's order. By default a step has one lane, and there is nothing
// to add.

#include <functional>

#include "state.hpp"

// Calls run_lane for each lane of this process. It leaves the lane's gradient in model.gradients, and lets `watch`
// observe the lane's last micro-batch. add_lanes() leaves the sum of all lanes in model.gradients; with several ranks,
// only this rank's shard. `last` observes the step's last micro-batch, or is null.
void add_lanes(TrainingState& s, int lanes, Observer* last,
               const std::function<void(int lane, Observer& watch)>& run_lane);
