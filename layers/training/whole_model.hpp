#pragma once
// Functions on the whole model, for any number of ranks that share its gradient and optimizer state.

#include <cstdint>
#include <functional>
#include <vector>

#include "state.hpp"

// The losses of a step's micro-batches, in nats.
class Losses {
 public:
  Losses(TrainingState& s, int micro_batches);
  void set(int micro, double nats);  // if it is not finite, finds out where in the activations that begins
  double sum(int64_t step);          // adds in the order of the micro-batches; throws Diverged

 private:
  TrainingState& s;
  std::vector<double> numbers;  // per micro-batch: its loss, and the number of the first tensor that is not finite
};

// Returns ‖g‖. Adds the squares of pieces in the order of the gradients.
double norm_of_gradient(TrainingState& s);

// Throws Diverged if the gradient's `norm` is not finite. Names the first tensor with such a gradient, in the order in
// which backward fills them.
void require_finite(TrainingState& s, double norm, int64_t step);

// Collects all gradients in model.gradients on rank 0.
void gather_gradients(TrainingState& s);

// Returns how many tokens each expert of each layer received in this step.
std::vector<double> load_of_experts(TrainingState& s);

// Calls `update` for each part of the model that this process updates. Afterwards every rank has all new weights.
// Sending a part overlaps with updating the next.
void update_parts(TrainingState& s, const std::function<void(const ShardPart& part)>& update);
