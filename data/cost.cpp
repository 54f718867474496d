#include "cost.hpp"

#include "../layers/model.hpp"
#include "ceiling.hpp"

MemoryNeed memory_of_training(const Config& config, int B) {
  Layout model, activations;
  declare_model(model, config);
  declare_activations(activations, config, B, config.context, true);
  const size_t weights = checked_product({model.size(), sizeof(float)});
  return {weights, weights, checked_product({2, weights}), checked_product({activations.size(), sizeof(float)})};
}

namespace {

// 1, 2, ... up to the window, and then as many as it has.
double keys_seen_on_average(double T, double window) {
  const double W = window > 0 && window < T ? window : T;
  return W * (T - (W - 1) / 2) / T;
}

}  // namespace

double flops_per_token(const Config& config) {
  Layout layout;
  declare_model(layout, config);
  double weights = static_cast<double>(config.vocab_size) * config.channels;  // of the classifier, tied or not
  for (const TensorSpec& spec : layout.table())
    if (spec.name.starts_with("block.") && spec.shape.size() == 2) weights += static_cast<double>(spec.size());
  double keys = 0;  // that a query sees, on average, in all layers together
  for (int l = 0; l < config.n_layer; ++l) keys += keys_seen_on_average(config.context, config.window_of(l));
  const double attention = 2. * config.n_head * config.head_dim * keys;  // q·k and P·v
  return 3 * 2 * (weights + attention);
}

Utilization::Utilization(const Config& config)
    : matmul_(config.matmul), work_(flops_per_token(config)), most_(measure_flops(matmul_)) {}

double Utilization::of(double tokens_per_second) {
  const double speed = tokens_per_second * work_;
  if (speed > most_ && looks_++ < 20) most_ = measure_flops(matmul_);
  return speed / most_;
}
