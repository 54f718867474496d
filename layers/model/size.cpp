#include "size.hpp"

#include "model.hpp"

MemoryNeed memory_of_training(const Config& config, int B, const std::vector<TensorSpec>& table) {
  Layout model, gradients(nullptr, table), activations;
  declare_model(model, config);
  declare_model(gradients, config);
  declare_activations(activations, config, B, config.context, true);
  return {checked_product({model.size(), sizeof(float)}), checked_product({gradients.size(), sizeof(float)}),
          checked_product({2, gradients.size(), sizeof(float)}), checked_product({activations.size(), sizeof(float)})};
}

MemoryNeed memory_of_training(const Config& config, int B) {
  Layout model;
  declare_model(model, config);
  return memory_of_training(config, B, model.table());
}

MemoryNeed memory_of_inference(const Config& config, int B, int T) {
  Layout model, activations;
  declare_model(model, config);
  declare_activations(activations, config, B, T, false);
  const size_t cache = checked_product({size_t(config.n_layer), size_t(T), cache_width(config)});
  MemoryNeed need;
  need.weights = checked_product({model.size(), sizeof(float)});
  need.activations = checked_product({activations.size() + cache, sizeof(float)});
  return need;
}

size_t count_parameters(const std::vector<TensorSpec>& table) {
  size_t n = 0;
  for (const TensorSpec& spec : table) n += spec.trained ? spec.size() : 0;
  return n;
}

size_t count_parameters(const Config& config) {
  Layout layout;
  declare_model(layout, config);
  return count_parameters(layout.table());
}

double flops_per_token(const Config& c) {
  const double C = c.channels, F = c.hidden, width = static_cast<double>(c.n_head) * c.head_dim;
  const double qkv = c.qkv_width() * C, o = width * C, ffn = (c.gated() ? 3 : 2) * F * C, classifier = c.vocab_size * C;
  double multiply_adds = c.n_layer * (qkv + o + ffn) + classifier;
  for (int l = 0; l < c.n_layer; ++l) multiply_adds += 2 * width * keys_seen(c, l);  // q·k and P·v
  return 3 * 2 * multiply_adds;
}

double flops_per_token(const Config& config, const std::vector<TensorSpec>& table) {
  double frozen = 0;  // multiply-adds
  for (const TensorSpec& spec : table) {
    const bool classifies = spec.role == Role::classifier || (config.tied && spec.name == "embedding.token.weight");
    if (!spec.trained && spec.shape.size() == 2 && (spec.layer != kOutside || classifies))
      frozen += static_cast<double>(spec.size());
  }
  return flops_per_token(config) - 2 * frozen;
}

// 1, 2, ... keys up to the window, and then always that many.
double keys_seen(const Config& config, int layer) {
  const double T = config.context, window = config.window_of(layer), W = window > 0 && window < T ? window : T;
  return W * (T - (W - 1) / 2) / T;
}
