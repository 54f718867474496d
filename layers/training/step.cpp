#include "step.hpp"

#include <algorithm>
#include <vector>

#include "branch_factors.hpp"
#include "lane_sums.hpp"
#include "layers/model/normed_weights.hpp"
#include "layers/moe/router.hpp"
#include "running_statistics.hpp"
#include "whole_model.hpp"

namespace {

// Leaves the step's gradient in model.gradients, and updates BatchNorm's running statistics. Returns the sum of the
// losses over all targets, in nats. `last` observes the last micro-batch, or is null.
double add_micro_batches(TrainingState& s, const MicroBatches& batches, const StepOptions& o, int64_t step,
                         Observer* last) {
  const LossScale scale(batches.targets, int64_t(batches.count) * s.B * s.T);
  const int length = batches.count / o.lanes;
  Losses losses(s, batches.count);
  RunningStatistics statistics(s.model, batches.count);
  add_lanes(s, o.lanes, last, [&](int lane, Observer& watch) {
    set_zero(s.model.gradients.get(), s.model.gradient_floats);
    for (int micro = lane * length; micro < (lane + 1) * length; ++micro) {
      const Dropout dropout{s.model.config.dropout, o.dropout_seed, uint64_t(step), micro * s.B};
      Observer* const observer = micro + 1 == (lane + 1) * length ? &watch : nullptr;
      statistics.clear();
      losses.set(micro, s.functions.loss_and_gradients(s.model, s.activations, batches.batch(micro), scale, dropout,
                                                     observer));
      statistics.keep_part(micro);
    }
  });
  statistics.apply(*s.group);
  return losses.sum(step);
}

void update_weights(TrainingState& s, const StepOptions& o, int64_t step, double lr, float factor) {
  update_parts(s, [&](const ShardPart& part) {
    const UpdateBuffers buffers{s.model.weights.get(), s.optimizer_state.get(), s.gradients_of(part), s.scratch.get()};
    for (const Optimizer* row : s.functions.optimizers)
      s.functions.update(*row)(buffers, tensors_of(part.table, *row), o.optimizer,
                               {static_cast<float>(lr), factor, step + 1});
  });
}

bool trains_router(const std::vector<TensorSpec>& table, int layer) {
  return std::ranges::any_of(table, [layer](const TensorSpec& spec) {
    return spec.role == Role::router && spec.layer == layer && spec.trained;
  });
}

// Moves the experts' selection bias by the load of the whole step (layers/moe/router.hpp), unless the router is frozen:
// adapters that are exported alone do not hold the bias.
void move_router_bias(TrainingState& s) {
  const Config& config = s.model.config;
  if (config.experts == 0 || config.router_bias == 0) return;
  const std::vector<double> load = load_of_experts(s);
  for (const TensorSpec& spec : s.model.table)
    if (is_router_bias(spec) && trains_router(s.model.table, spec.layer))
      update_router_bias(s.model.weights.get() + spec.offset, &load[size_t(spec.layer) * config.experts],
                         config.experts, config.router_bias);
}

}  // namespace

StepResult training_step(TrainingState& s, const MicroBatches& batches, const StepOptions& o, int64_t step, double lr,
                         StepObserver* observer) {
  std::ranges::fill(s.model.load, 0.);
  set_branch_factors(s.model, step);
  const double nats = add_micro_batches(s, batches, o, step, observer);
  const double norm = norm_of_gradient(s);
  require_finite(s, norm, step);
  const float factor = s.functions.clip(norm, o.clip);
  if (observer) {
    gather_gradients(s);
    observer->before_update();
  }
  if (!s.functions.optimizers.empty()) {
    update_weights(s, o, step, lr, factor);
    normalize_weights(s.model.weights.get(), s.model.table, s.model.config);
    move_router_bias(s);
    set_branch_factors(s.model, step + 1);
  }
  if (observer) observer->after_update();
  return {nats / static_cast<double>(batches.targets), norm, factor < 1, batches.targets};
}
