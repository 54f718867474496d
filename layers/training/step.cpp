#include "step.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "layers/cross_entropy/cross_entropy.hpp"

std::string Diverged::message() const {
  const std::string subject = "step " + std::to_string(step) + ": the " + what;
  if (exploded) return subject + " has exploded: it is more than ten times that of uniform guessing";
  return subject + " is not finite; " +
         (tensor.empty() ? "every tensor is: their sum overflowed"
                         : "the first tensor with a NaN or an infinity is " + tensor);
}

TrainingState::TrainingState(Model m, int b, int t, const StepFunctions& functions)
    : model(std::move(m)), by(functions), B(b), T(t), activations(allocate_activations(model.config, B, T, true)),
      tokens(size_t(B) * T), targets(tokens.size()) {
  for (size_t slot = 0; by.optimizer && slot < by.optimizer->slots.size(); ++slot)
    optimizer_state.push_back(allocate(model.gradient_floats));
}

MicroBatches micro_batches(const int* tokens, const int* targets, int count, int B, int T) {
  const size_t n = size_t(B) * T;
  return {count, std::count_if(targets, targets + count * n, [](int target) { return target != kIgnore; }),
          [=](int* to_tokens, int* to_targets, int micro) {
            std::copy_n(tokens + micro * n, n, to_tokens);
            std::copy_n(targets + micro * n, n, to_targets);
          }};
}

namespace {

enum class Pass { forward, backward };  // fills the tensors of a table from its first, or from its last

void require_finite(double value, const char* what, Pass pass, const std::vector<TensorSpec>& table,
                    const float* buffer, int64_t step) {
  if (std::isfinite(value)) return;
  std::vector<TensorSpec> filled = pass == Pass::forward ? table : gradients_of(table);
  if (pass == Pass::backward) std::reverse(filled.begin(), filled.end());
  const TensorSpec* first = first_non_finite(filled, buffer);
  throw Diverged{step + 1, what, first ? first->name : ""};
}

// Adds up the gradients and returns the sum of the losses.
double add_micro_batches(TrainingState& s, const MicroBatches& batches, const StepOptions& o, int64_t step,
                         Observer* observer) {
  const float scale = 1.f / static_cast<float>(batches.targets);
  double nats = 0;
  for (int micro = 0; micro < batches.count; ++micro) {
    batches.fill(s.tokens.data(), s.targets.data(), micro);
    const Batch batch{s.tokens.data(), s.targets.data(), s.B, s.T};
    const Dropout dropout{s.model.config.dropout, o.dropout_seed, uint64_t(step), micro * s.B};
    nats += s.by.loss_and_gradients(s.model, s.activations, batch, scale, dropout,
                                    micro + 1 == batches.count ? observer : nullptr);
    require_finite(nats, "loss", Pass::forward, s.activations.table, s.activations.buffer.get(), step);
  }
  return nats;
}

}  // namespace

StepResult training_step(TrainingState& s, const MicroBatches& batches, const StepOptions& o, int64_t step, double lr,
                         StepObserver* observer) {
  const Model& model = s.model;
  float* gradients = model.gradients.get();
  set_zero(gradients, model.gradient_floats);
  const double nats = s.group.add_losses(add_micro_batches(s, batches, o, step, observer));
  s.group.add_gradients(gradients, model.gradient_floats);
  const double norm = s.by.norm(gradients, model.table);
  require_finite(norm, "gradient", Pass::backward, model.table, gradients, step);
  const float factor = s.by.clip(norm, o.clip);
  if (observer) observer->before_update();
  if (s.by.optimizer)
    s.by.optimizer->update(model.weights.get(), s.optimizer_state, gradients, model.table, o.adamw,
                           static_cast<float>(lr), factor, step + 1);
  if (observer) observer->after_update();
  return {nats / static_cast<double>(batches.targets), norm, factor < 1, batches.targets};
}
