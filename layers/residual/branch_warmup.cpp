#include "branch_warmup.hpp"

#include <algorithm>

#include "layers/config/base_model.hpp"

float* declare_branch_warmup(Layout& layout, const Config& config) {
  if (config.branch_warmup == BranchWarmup::none) return nullptr;
  return layout.take_untrained("branch_warmup", Role::gain, {1}, 0);
}

float branch_warmup(const Config& config, int layer, int64_t updates) {
  const bool later = config.branch_warmup == BranchWarmup::prores;
  const double steps = static_cast<double>(config.branch_warmup_steps) * (later ? base_layer(config, layer) + 1 : 1);
  return static_cast<float>(std::min(static_cast<double>(updates) / steps, 1.));
}
