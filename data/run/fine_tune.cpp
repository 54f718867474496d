#include "fine_tune.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "data/formats/huggingface/peft_modules.hpp"
#include "data/run_directory/checkpoint.hpp"
#include "data/strings/format.hpp"
#include "layers/config/base_model.hpp"
#include "layers/linear/lora.hpp"
#include "layers/model/initialize.hpp"
#include "layers/model/normed_weights.hpp"
#include "layers/training/branch_factors.hpp"
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

Match match_tensors(const std::vector<TensorSpec>& model, const std::vector<TensorSpec>& stored,
                    const std::string& path) {
  const auto fail = [&](const std::string& expected, const std::string& found) {
    throw std::runtime_error(path + " does not fit this model: expected " + expected + ", found " + found);
  };
  std::map<std::string, const TensorSpec*> theirs;
  for (const TensorSpec& spec : stored) theirs[spec.name] = &spec;
  Match match;
  std::vector<std::string> added, dropped;
  for (const TensorSpec& spec : model) {
    const auto found = theirs.find(spec.name);
    if (found != theirs.end() && (found->second->shape == spec.shape || is_cut(spec, *found->second))) {
      (found->second->shape == spec.shape ? match.equal : match.cut).push_back(spec);
      theirs.erase(found);
      continue;
    }
    match.lacking.push_back(spec);
    if (spec.role == Role::adapter && found == theirs.end()) continue;
    if (!is_norm(spec)) fail(described(spec), found == theirs.end() ? "no such tensor" : described(*found->second));
    added.push_back(spec.name);
  }
  for (const auto& [name, spec] : theirs) {
    if (is_branch_factor(*spec)) continue;  // a warm-up that has ended
    if (!is_norm(*spec)) fail("no further tensor", described(*spec));
    dropped.push_back(name);
  }
  if (!dropped.empty()) match.note = "dropped " + listed(dropped);
  if (!added.empty()) match.note += (match.note.empty() ? "" : "; ") + listed(added) + " start new";
  return match;
}

namespace {

// Memory for the stored tensors that have no place in the model, as floats.
struct Aside {
  std::vector<TensorSpec> table;
  Buffer floats;

  Aside(const std::vector<TensorSpec>& stored, const TensorPlaces& in_model) {
    size_t size = 0;
    for (TensorSpec spec : stored) {
      if (in_model.contains(spec.name)) continue;
      spec.numbers = NumberType::fp32;
      spec.offset = size;
      size += spec.size();
      table.push_back(spec);
    }
    floats = allocate(size);
  }
};

// Adds all adapters to their matrices, which consist of floats.
void merge_adapters(const TensorPlaces& places, const Config& config) {
  for (const auto& [name, place] : places) {
    const TensorSpec& spec = place.spec;
    if (spec.role != Role::adapter || spec.leaf() != "lora_a") continue;
    const std::string module = name.substr(0, name.rfind('.')), group = spec.group();
    const int rank = spec.shape[0], inputs = spec.shape[1];
    const TensorPlace& of_b = places.at(module + ".lora_b");
    Lora adapter{.a = place.buffer + spec.offset, .b = of_b.buffer + of_b.spec.offset, .begin = 0, .out = 0,
                 .rank = rank, .scale = config.lora_alpha / static_cast<float>(rank)};
    for (const std::string& part : adapted_parts(group)) {
      const auto& [weight, buffer] = places.at(module.substr(0, module.size() - group.size()) + part + ".weight");
      adapter.out = weight.shape[0];
      lora_merge(buffer + weight.offset, {adapter}, inputs);
      adapter.b += weight.size() / inputs * rank;
    }
  }
}

std::vector<TensorSpec> without_adapters(std::vector<TensorSpec> table) {
  std::erase_if(table, [](const TensorSpec& spec) { return spec.role == Role::adapter; });
  return table;
}

// Removes the tensors that do not consist of floats, and returns them.
std::vector<TensorSpec> take_small(std::vector<TensorSpec>& table) {
  const auto is_float = [](const TensorSpec& spec) { return spec.numbers == NumberType::fp32; };
  const auto small = std::stable_partition(table.begin(), table.end(), is_float);
  const std::vector<TensorSpec> taken(small, table.end());
  table.erase(small, table.end());
  return taken;
}

}  // namespace

std::string start_from(Model& model, const std::string& checkpoint, uint64_t seed) {
  const StoredWeights from(checkpoint);
  const bool merges = model.config.lora_rank == 0 && from.config().lora_rank > 0;
  Match match = match_tensors(model.table, merges ? without_adapters(from.table()) : from.table(), checkpoint);
  initialize(model, seed, match.lacking);
  std::vector<TensorSpec> copied = merges ? take_small(match.equal) : std::vector<TensorSpec>();
  copied.insert(copied.end(), match.cut.begin(), match.cut.end());

  TensorPlaces to = places_in(match.equal, model.weights.get());
  const Aside aside(from.table(), to);
  to.merge(places_in(aside.table, aside.floats.get()));
  from.read(to);
  if (merges) merge_adapters(to, from.config());
  for (const TensorSpec& spec : copied) {
    const auto& [read, buffer] = to.at(spec.name);
    std::copy_n(buffer + read.offset, spec.size(), FloatsToWrite(model.weights.get(), spec).data());
  }
  normalize_weights(model.weights.get(), model.table, model.config);
  return match.note;
}

double fine_tuning_rate(const Config& config) {
  constexpr double kWhole = .03, kAdapters = .3;
  // A parametrization multiplies the rate of the base model.
  return std::stod(format("%.1e", (config.lora_rank > 0 ? kAdapters : kWhole) / base_width(config)));
}

int fitting_context(const TrainOptions& options, size_t memory) {
  constexpr int kShortest = 64;  // tokens; if even these do not fit, the run is refused
  TrainOptions o = options;
  while (o.config.context > kShortest && memory > 0 && memory_of_run(o).total() > memory / 2) o.config.context /= 2;
  return o.config.context;
}
