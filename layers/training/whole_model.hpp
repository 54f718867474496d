#pragma once
// The model as a whole, however many ranks share its gradient and its optimizer state. A process alone has all of it.

#include <cstdint>
#include <functional>
#include <vector>

#include "state.hpp"

// ‖g‖. The squares of pieces are added in the order of the gradients.
double norm_of_gradient(TrainingState& s);

// Throws Diverged if `norm`, that of the gradient, is not finite. It names the first tensor, in the order in which
// backward fills them, whose gradient is not.
void require_finite(TrainingState& s, double norm, int64_t step);

// Makes model.gradients whole on rank 0.
void gather_gradients(TrainingState& s);

// The number of tokens that each expert of each layer received in this step.
std::vector<double> load_of_experts(TrainingState& s);

// Calls `update` for each part of the model that this process updates. Afterwards every rank has all new weights.
// Sending a part overlaps with the update of the next.
void update_parts(TrainingState& s, const std::function<void(const ShardPart& part)>& update);
