#include "foreign_tensors.hpp"

#include <stdexcept>
#include <string_view>

#include "layers/model/size.hpp"

namespace {

// Replaces a mark in a name by a number, if the name has the mark.
void fill_in(std::string& name, char mark, int number) {
  if (const size_t at = name.find(mark); at != name.npos) name.replace(at, 1, std::to_string(number));
}

// "block.3.attention.q.weight" → "block.#.attention.q", "block.3.ffn.expert.5.up.weight" → "block.#.ffn.expert.@.up"
std::string module_of(const TensorSpec& spec) {
  std::string module = (spec.layer == kOutside ? "" : "block.#.") + spec.group();
  if (const int expert = expert_of(spec); expert >= 0) {
    const std::string number = "." + std::to_string(expert) + ".";
    module.replace(module.find(number), number.size(), ".@.");
  }
  return module;
}

// Returns the row of a tensor's module. A class without rows uses our names.
ModuleRow module_row(const Architecture& architecture, const TensorSpec& spec) {
  for (const ModuleRow& row : architecture.modules)
    if (module_of(spec) == row.ours) return row;
  if (architecture.modules.empty()) return {"", ""};
  throw std::logic_error(std::string(architecture.model_class) + " has no module for " + spec.name);
}

std::string foreign_name(const ModuleRow& row, const TensorSpec& spec) {
  std::string name = row.theirs;
  if (name.empty()) return spec.name;
  fill_in(name, '#', spec.layer);
  fill_in(name, '@', expert_of(spec));
  return name + "." + (spec.leaf() == "gain" ? "weight" : spec.leaf());
}

}  // namespace

std::map<std::string, ForeignTensor> foreign_tensors(const Architecture& architecture, const Config& config) {
  Layout layout;
  declare_model(layout, config);
  std::map<std::string, ForeignTensor> all;
  for (const TensorSpec& spec : layout.table()) {
    const ModuleRow row = module_row(architecture, spec);
    ForeignTensor& tensor = all[foreign_name(row, spec)];
    const bool has_numbers = std::string_view(row.theirs).find('@') != std::string_view::npos;
    const bool joins_experts = expert_of(spec) >= 0 && *row.theirs && !has_numbers;
    tensor.sources.push_back({spec, row.foreign_row, joins_experts ? tensor.rows : 0});
    tensor.matrices += joins_experts;
    tensor.rows += spec.shape[0] + row.unused;
    tensor.vector = spec.shape.size() == 1;
    tensor.columns = tensor.vector ? 1 : spec.shape[1];
    tensor.transposed = row.transposed && !tensor.vector;
  }
  return all;
}

std::vector<float> values_of(const ForeignTensor& tensor, const Config& config, const Model& model) {
  std::vector<float> values(tensor.rows * tensor.columns);
  for (const ForeignTensor::Source& source : tensor.sources)
    for (const TensorSpec& spec : model.table)
      if (spec.name == source.spec.name)
        tensor.for_each(source, config, [&, from = model.weights.get() + spec.offset](size_t theirs, size_t ours) {
          values[theirs] = from[ours];
        });
  return values;
}
