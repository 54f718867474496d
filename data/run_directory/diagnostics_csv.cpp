#include "diagnostics_csv.hpp"

#include <algorithm>
#include <filesystem>

#include "checkpoint.hpp"
#include "directory.hpp"
#include "layers/model/initialize.hpp"
#include "metrics.hpp"

void sort_by_layer(Statistics& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.layer < b.layer; });
}

std::string csv_row(const Statistic& s) {
  const std::string layer = s.layer == kOutside ? "" : std::to_string(s.layer);
  return layer + "," + s.part + "," + s.what + "," + csv_number(s.value) + "\n";
}

namespace {

// Rebuilds a resumed run's model as it was before its first step.
Model initial_model(const TrainOptions& options, const Config& config) {
  Model model(config, false);
  if (options.init_from.empty()) initialize(model, options.seed);
  else load_checkpoint(find_checkpoint(options.init_from), model, nullptr);
  return model;
}

}  // namespace

Diagnostics::Diagnostics(const TrainOptions& options, const Dataset& data, const Model& model,
                         const Activations& activations, int64_t last_step)
    : PassStatistics(model), options_(options), activations_(activations) {
  const std::string path = options.out + "/" + kDiagnostics;
  if (options.diagnostics > 0 || std::filesystem::exists(path))
    file_ = std::make_unique<GrowingFile>(
        path, readable_rows(path, csv_up_to(path, {"step", "layer", "part", "what", "value"}, last_step,
                                            {"part", "what"}, false)));
  if (options.diagnostics == 0) return;

  before_ = allocate(model.floats);
  const int B = options.batch, T = model.config.context;
  probed_ = data.val.empty() ? draw_batch(data, B, T, {options.data_seed, 0, uint64_t(B)}, 0)
                             : fill_rows(data, data.val, 0, B, T);
  const float* h = last_step == 0 ? model_features(model, activations, probed_.batch())
                                  : model_features(initial_model(options, model.config), activations, probed_.batch());
  start_.assign(h, h + probed_.tokens.size() * model.config.channels);
}

StepObserver* Diagnostics::observer(int64_t step) {
  const int64_t every = options_.diagnostics;
  if (every == 0 || (step != 1 && step % every != 0 && step != options_.steps)) return nullptr;
  step_ = step;
  rows.clear();
  return this;
}

void Diagnostics::before_update() {
  add_tensor_statistics(rows, model_);
  std::copy_n(model_.weights.get(), model_.floats, before_.get());
  const Batch batch = probed_.batch();
  const float* h = model_features(model_, activations_, batch);
  const double update = model_update(h, start_.data(), batch.targets, batch.B * batch.T, model_.config.channels);
  rows.push_back({kOutside, "model", "update", update});
}

void Diagnostics::after_update() {
  add_update_ratios(rows, model_, before_.get());
  sort_by_layer(rows);
  std::string lines;
  for (const Statistic& row : rows) lines += std::to_string(step_) + "," + csv_row(row);
  file_->write(lines);
}
