#include "step_inputs.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <stdexcept>
#include <vector>

#include "data/strings/format.hpp"
#include "data/strings/pattern.hpp"

namespace {

// Calls f(tensor, true if its name matches) for each tensor that can be trained.
template <class F>
void match(std::vector<TensorSpec>& table, const std::string& option, const std::string& pattern, const F& f) {
  const Pattern expression(option, pattern);
  bool any = false, frozen = false;
  for (TensorSpec& spec : table) {
    const bool matches = expression.matches(spec.name);
    (spec.trained ? any : frozen) |= matches;
    if (spec.trained) f(spec, matches);
  }
  if (any) return;
  throw std::invalid_argument("--" + option + " " + pattern +
                              (frozen ? " matches only tensors that do not train; train_gpt info marks them"
                                      : " matches no tensor: train_gpt info lists their names"));
}

}  // namespace

void choose_trained(std::vector<TensorSpec>& table, const TrainOptions& o) {
  if (o.config.lora_rank > 0)
    for (TensorSpec& spec : table) spec.trained = spec.role == Role::adapter;
  if (!o.train_only.empty())
    match(table, "train-only", o.train_only, [](TensorSpec& spec, bool matches) { spec.trained = matches; });
  if (!o.freeze.empty())
    match(table, "freeze", o.freeze, [](TensorSpec& spec, bool matches) { spec.trained = !matches; });
  if (count_parameters(table) == 0) throw std::invalid_argument("--freeze " + o.freeze + " leaves nothing to train");
  assign_optimizers(table, o.optimizers());
  set_factors(table, o.config, o.optimizer_options.muon_scale);
  for (const RateGroup& group : kRateGroups)
    for (TensorSpec& spec : table)
      if (o.*group.rate && group.has(spec)) {  // replaces the parametrization's factor, whose inverse must not act then
        spec.rate = static_cast<float>(*(o.*group.rate) / o.rate.lr);
        spec.decay_factor = 1;
      }
  if (o.frozen_weights != NumberType::fp32) keep_frozen(table, o.config, o.frozen_weights);
}

std::string describe_trained(const Config& config, const std::vector<TensorSpec>& table) {
  const size_t all = count_parameters(config), trained = count_parameters(table);
  if (trained == all) return "";
  const auto small = std::ranges::find_if(table, [](const auto& spec) { return spec.numbers != NumberType::fp32; });
  return format_short(static_cast<double>(trained)) + " of " + format_short(static_cast<double>(all)) + " parameters" +
         (small == table.end() ? "" : std::string("; frozen matrices are ") + name_of(kNumberTypes, small->numbers));
}

std::vector<TensorSpec> table_of_run(const TrainOptions& o) {
  Layout layout;
  declare_model(layout, o.config);
  std::vector<TensorSpec> table = layout.table();
  choose_trained(table, o);
  return table;
}

MemoryNeed memory_of_run(const TrainOptions& o) {
  const std::vector<TensorSpec> table = table_of_run(o);
  MemoryNeed need = memory_of_training(o.config, o.batch, table, state_floats(table), scratch_floats(table));
  if (o.resume || !o.init_from.empty()) need.profile = 0;  // the checkpoint has the gains
  if (o.diagnostics > 0) {
    for (const TensorSpec& spec : table) need.watched += spec.size() * sizeof(float);
    need.watched += size_t(o.batch) * o.config.context * o.config.channels * sizeof(float);
  }
  need.gradients *= std::bit_width(static_cast<unsigned>(o.lanes));  // a buffer for each level of the tree
  return need;
}

Model model_to_train(const TrainOptions& o) { return {o.config, table_of_run(o)}; }

StepOptions step_options(const TrainOptions& o) { return {o.optimizer_options, o.clip, o.seed, o.lanes}; }

StepRows step_rows(const TrainOptions& o, int64_t step) {
  return {o.data_seed, uint64_t(step), uint64_t(o.batch) * o.accumulate};
}

MicroBatches micro_batches(const Dataset& data, const TrainOptions& o, int64_t step) {
  const auto rows = std::make_shared<const RowBatch>(
      draw_batch(data, o.accumulate * o.batch, o.config.context, step_rows(o, step), 0));
  return micro_batches(rows->batch(), o.accumulate, rows);
}
