#include "foreign_tensors.hpp"

#include <stdexcept>
#include <string_view>

#include "data/strings/utf8.hpp"
#include "layers/kernels/elementwise.hpp"
#include "layers/model/size.hpp"

namespace {

// Replaces a mark in a name by a number, if the name has the mark.
void fill_in(std::string& name, char mark, int number) {
  if (const size_t at = name.find(mark); at != name.npos) name.replace(at, 1, std::to_string(number));
}

// "block.3.attention.q.weight" → "block.#.attention.q", "block.3.ffn.expert.5.up.weight" → "block.#.ffn.expert.@.up",
// "encoder.block.3.attention.q.weight" → "encoder.block.#.attention.q"
std::string module_of(const TensorSpec& spec, const Config& config) {
  std::string module = spec.group();
  const bool in_encoder = spec.layer < config.encoder_layers;
  if (spec.layer != kOutside) module.insert(in_encoder ? module.find('.') + 1 : 0, "block.#.");
  if (const int expert = expert_of(spec); expert >= 0) {
    const std::string number = "." + std::to_string(expert) + ".";
    module.replace(module.find(number), number.size(), ".@.");
  }
  return module;
}

// Returns the row of a tensor's module. A class without rows uses our names.
ModuleRow module_row(const Architecture& architecture, const TensorSpec& spec, const Config& config) {
  for (const ModuleRow& row : architecture.modules)
    if ((module_of(spec, config) == row.ours || spec.name == row.ours) && (!row.when || row.when(config))) return row;
  if (architecture.modules.empty()) return {"", ""};
  throw std::logic_error(std::string(architecture.model_class) + " has no module for " + spec.name);
}

std::string foreign_name(const Architecture& architecture, const ModuleRow& row, const TensorSpec& spec,
                         const Config& config) {
  std::string name = row.theirs;
  if (name.empty()) return spec.name;
  if (spec.name == row.ours) return name;
  if (name[0] == '^') name.replace(0, 1, architecture.prefix);
  fill_in(name, '#', layer_in_stack(config, spec.layer));
  fill_in(name, '@', expert_of(spec));
  if (row.bare) return name + (spec.leaf() == "weight" ? "" : "_" + spec.leaf());
  return name + "." + (spec.leaf() == "gain" ? "weight" : spec.leaf());
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string text;
  for (const uint64_t d : shape) text += (text.empty() ? "" : ", ") + std::to_string(d);
  return "(" + text + ")";
}

}  // namespace

ForeignTensors foreign_tensors(const Architecture& architecture, const Config& config) {
  Layout layout;
  declare_model(layout, config);
  ForeignTensors all;
  for (const TensorSpec& spec : layout.table()) {
    const ModuleRow row = module_row(architecture, spec, config);
    ForeignTensor& tensor = all[foreign_name(architecture, row, spec, config)];
    const bool has_numbers = std::string_view(row.theirs).find('@') != std::string_view::npos;
    const bool joins_experts = expert_of(spec) >= 0 && *row.theirs && !has_numbers;
    tensor.sources.push_back({spec, row.foreign_row, row.foreign_column});
    if (joins_experts) tensor.experts = config.experts;
    tensor.rows += spec.shape[0] + row.unused;
    tensor.vector = spec.shape.size() == 1;
    tensor.one_row = row.one_row;
    tensor.columns = tensor.vector ? 1 : spec.shape[1];
    tensor.transposed = row.transposed && !tensor.vector;
  }
  for (auto& [name, tensor] : all)
    if (tensor.experts > 0)
      for (ForeignTensor::Source& source : tensor.sources) source.first = expert_of(source.spec) * tensor.height();
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

uint64_t HeldTensor::size() const {
  uint64_t n = 1;
  for (const uint64_t d : shape) n *= d;
  return n;
}

void require_tensors(const std::string& path, const std::string& header, const HeldTensors& held,
                     const ForeignTensors& wanted) {
  for (const auto& [name, tensor] : wanted) {
    const auto found = held.find(name);
    if (found == held.end()) throw std::runtime_error(path + " lacks the tensor '" + name + "'");
    if (found->second.shape != tensor.shape())
      throw std::runtime_error(found->second.file + ": " + in_quotes(name) + " has the shape " +
                               shape_text(found->second.shape) + ", and " + header + " asks for " +
                               shape_text(tensor.shape()));
  }
  for (const auto& [name, tensor] : held)
    if (!wanted.contains(name))
      throw std::runtime_error(tensor.file + " holds " + in_quotes(name) + ", which the model of " + header +
                               " does not have");
}

namespace {

// True if their tensor has the numbers of one of ours in the same order.
bool is_equal(const ForeignTensor& tensor) {
  return tensor.sources.size() == 1 && !tensor.sources[0].foreign_row && !tensor.sources[0].foreign_column &&
         !tensor.transposed && tensor.sources[0].spec.size() == tensor.rows * tensor.columns;
}

// Reads a tensor that has the numbers of ours in the same order. Numbers that must be rounded are read in pieces, which
// takes less memory.
void fill(const TensorPlace& to, const HeldTensor& from) {
  const auto& [spec, buffer] = to;
  if (spec.numbers == NumberType::fp32 || !from.read_part) return from.read(FloatsToWrite(buffer, spec).data());
  std::vector<float> piece(1 << 16);
  for (uint64_t first = 0, n; first < from.size(); first += n) {
    n = std::min<uint64_t>(piece.size(), from.size() - first);
    from.read_part(piece.data(), first, n);
    round_to(spec.numbers, buffer + spec.offset, first, piece.data(), n);
  }
}

}  // namespace

void load_tensors(const TensorPlaces& to, const std::string& path, const HeldTensors& held,
                  const ForeignTensors& wanted, const Config& config) {
  for (const auto& [name, tensor] : wanted) {
    const HeldTensor& from = held.at(name);
    if (is_equal(tensor)) {
      fill(to.at(tensor.sources[0].spec.name), from);
      continue;
    }
    std::vector<float> values(from.size());
    from.read(values.data());
    for (const ForeignTensor::Source& source : tensor.sources) {
      const TensorPlace& place = to.at(source.spec.name);
      const FloatsToWrite floats(place.buffer, place.spec);
      tensor.for_each(source, config, [&, ours = floats.data()](size_t theirs, size_t i) { ours[i] = values[theirs]; });
    }
  }
  if (const TensorSpec* bad = first_non_finite(to))
    throw std::runtime_error(path + " cannot be used: " + bad->name + " is not finite");
}
