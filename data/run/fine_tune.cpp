#include "fine_tune.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/run_directory/checkpoint.hpp"
#include "data/strings/format.hpp"
#include "step_inputs.hpp"

namespace {

// Returns "3 tensors of norms (block.0.norm1.bias, ...)".
std::string listed(const std::vector<std::string>& names) {
  return counted(static_cast<double>(names.size()), "tensor") + " of norms (" + names[0] +
         (names.size() > 1 ? ", ...)" : ")");
}

// True for learned positions of which the model has fewer.
bool is_cut(const TensorSpec& spec, const TensorSpec& longer) {
  return spec.name == "embedding.position.weight" && spec.shape[0] < longer.shape[0] &&
         spec.shape[1] == longer.shape[1];
}

}  // namespace

std::string copy_weights(Model& model, const Model& from, const std::string& path) {
  const auto fail = [&](const std::string& expected, const std::string& found) {
    throw std::runtime_error(path + " does not fit this model: expected " + expected + ", found " + found);
  };
  std::map<std::string, const TensorSpec*> theirs;
  for (const TensorSpec& spec : from.table) theirs[spec.name] = &spec;
  std::vector<std::string> added, dropped;
  for (const TensorSpec& spec : model.table) {
    const auto found = theirs.find(spec.name);
    if (found != theirs.end() && (found->second->shape == spec.shape || is_cut(spec, *found->second))) {
      std::copy_n(from.weights.get() + found->second->offset, spec.size(),
                  FloatsToWrite(model.weights.get(), spec).data());
      theirs.erase(found);
      continue;
    }
    if (spec.role == Role::adapter && found == theirs.end()) continue;
    if (!is_norm(spec)) fail(described(spec), found == theirs.end() ? "no such tensor" : described(*found->second));
    added.push_back(spec.name);
  }
  for (const auto& [name, spec] : theirs) {
    if (!is_norm(*spec)) fail("no further tensor", described(*spec));
    dropped.push_back(name);
  }
  std::string text;
  if (!dropped.empty()) text = "dropped " + listed(dropped);
  if (!added.empty()) text += (text.empty() ? "" : "; ") + listed(added) + " start new";
  return text;
}

std::string start_from(Model& model, const std::string& checkpoint) {
  if (load_weights(checkpoint, model)) return "";
  TrainedModel from = load_trained_model(checkpoint);
  if (model.config.lora_rank == 0 && from.model.config.lora_rank > 0) from.model = merged(std::move(from.model));
  return copy_weights(model, from.model, from.path);
}

double fine_tuning_rate(const Config& config) {
  constexpr double kWhole = .03, kAdapters = .3;
  return std::stod(format("%.1e", (config.lora_rank > 0 ? kAdapters : kWhole) / config.channels));
}

int fitting_context(const TrainOptions& options, size_t memory) {
  constexpr int kShortest = 64;  // tokens; if even these do not fit, the run is refused
  TrainOptions o = options;
  while (o.config.context > kShortest && memory > 0 && memory_of_run(o).total() > memory / 2) o.config.context /= 2;
  return o.config.context;
}
