#include "branch_factors.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

bool is_branch_factor(const TensorSpec& spec) { return spec.name.ends_with(".branch_warmup"); }

void set_branch_factors(Model& model, int64_t updates) {
  if (model.config.branch_warmup == BranchWarmup::none) return;
  for (const TensorSpec& spec : model.table) {
    if (!is_branch_factor(spec)) continue;
    const int layer = layer_in_stack(model.config, spec.layer);
    model.weights[spec.offset] = branch_warmup(model.config, layer, updates);
  }
}

bool branch_warmup_ended(const Model& model) {
  return std::ranges::all_of(model.table, [&](const TensorSpec& spec) {
    return !is_branch_factor(spec) || model.weights[spec.offset] == 1;
  });
}

bool branch_warmup_ended(const Config& config, int64_t updates) {
  if (config.branch_warmup == BranchWarmup::none) return true;
  for (int layer = 0; layer < std::max(config.n_layer, config.encoder_layers); ++layer)
    if (branch_warmup(config, layer, updates) < 1) return false;
  return true;
}

Model without_branch_warmup(const Model& model) {
  Config config = model.config;
  config.branch_warmup = BranchWarmup::none;
  config.branch_warmup_steps = 0;
  Model plain(config, false);
  std::unordered_map<std::string, const TensorSpec*> by_name;
  for (const TensorSpec& spec : model.table) by_name[spec.name] = &spec;
  for (const TensorSpec& spec : plain.table)
    std::copy_n(&model.weights[by_name.at(spec.name)->offset], spec.size(), &plain.weights[spec.offset]);
  return plain;
}
