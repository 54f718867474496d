#include "peft.hpp"

#include <map>
#include <set>
#include <stdexcept>
#include <string_view>

#include "architectures.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/formats/safetensors.hpp"
#include "data/strings/format.hpp"
#include "layers/config/placements.hpp"

using nlohmann::json;

namespace {

struct Joined {
  const char* name;
  std::vector<const char*> parts;  // in row order
};
const Joined kJoined[] = {{"qkv", {"attention.q", "attention.k", "attention.v"}},
                          {"gate_up", {"ffn.gate", "ffn.up"}}};

// Returns the row of a part such as "attention.q". A class without rows uses our names.
ModuleRow module_row(const Architecture& architecture, const std::string& part) {
  for (const ModuleRow& row : architecture.modules)
    if ("block.#." + part == row.ours) return row;
  return {"", ""};
}

// Returns the matrices that an adapter belongs to: attention.q, attention.k and attention.v for "attention.qkv".
std::vector<std::string> parts_of(const std::string& group) {
  for (const Joined& row : kJoined)
    if (group.ends_with(std::string(".") + row.name)) return {row.parts.begin(), row.parts.end()};
  return {group};
}

// Returns the row in their tensor for each row of our b.
std::vector<size_t> foreign_rows(const Architecture& architecture, const Config& config, const std::string& group) {
  std::vector<size_t> rows;
  const size_t D = config.head_dim;
  for (const std::string& part : parts_of(group)) {
    const ModuleRow row = module_row(architecture, part);
    const std::map<std::string_view, size_t> sizes = {
        {"attention.q", config.n_head * D}, {"attention.k", config.kv_heads * D}, {"attention.v", config.kv_heads * D},
        {"attention.o", config.channels},   {"ffn.gate", config.hidden},          {"ffn.up", config.hidden},
        {"ffn.down", config.channels}};
    for (size_t r = 0; r < sizes.at(part); ++r) rows.push_back(row.foreign_row ? row.foreign_row(r, config) : r);
  }
  return rows;
}

struct Module {
  std::string name;    // "transformer.h.3.attn.c_attn"
  std::string target;  // the part of the name after the layer's number
  bool transposed;
};

Module module_of(const Architecture& architecture, const TensorSpec& spec) {
  const ModuleRow row = module_row(architecture, parts_of(spec.group())[0]);
  const std::string name = *row.theirs ? row.theirs : "block.#." + spec.group();
  const size_t at = name.find('#');
  return {name.substr(0, at) + std::to_string(spec.layer) + name.substr(at + 1), name.substr(at + 2), row.transposed};
}

// Returns the values of an adapter. The rows of b have the same order as the rows of its matrix.
std::vector<float> values_of(const Architecture& architecture, const Model& model, const TensorSpec& spec) {
  const float* from = model.weights.get() + spec.offset;
  std::vector<float> values(from, from + spec.size());
  if (spec.leaf() == "lora_a") return values;
  const std::vector<size_t> rows = foreign_rows(architecture, model.config, spec.group());
  const size_t rank = spec.shape[1];
  for (size_t r = 0; r < rows.size(); ++r) std::copy_n(from + r * rank, rank, values.data() + rows[r] * rank);
  return values;
}

}  // namespace

std::string joined_matrices(const Config& config) {
  if (config.placement_row->streams != StreamRule::single) return "";  // no class has several streams
  const Architecture& architecture = expressed(config.without_lora()).architecture;
  std::string list;
  for (const Joined& row : kJoined) {
    const std::string first = module_row(architecture, row.parts[0]).theirs;
    if (!first.empty() && first == module_row(architecture, row.parts[1]).theirs)
      list += (list.empty() ? "" : ",") + std::string(row.name);
  }
  return list;
}

std::string write_adapters(const std::string& folder, const ExportedModel& exported) {
  const Model& model = exported.model;
  if (joined_matrices(model.config) != model.config.lora_shared)
    throw std::runtime_error("these adapters fit no class of transformers: add --lora-merge");
  const Architecture& architecture = expressed(model.config.without_lora()).architecture;
  std::set<std::string> targets;
  std::vector<NewTensor> tensors;
  bool transposed = false;
  for (const TensorSpec& spec : model.table) {
    if (spec.role != Role::adapter) continue;
    const Module module = module_of(architecture, spec);
    targets.insert(module.target);
    transposed = module.transposed;
    const char* leaf = spec.leaf() == "lora_a" ? ".lora_A.weight" : ".lora_B.weight";
    tensors.push_back({"base_model.model." + module.name + leaf,
                       {spec.shape.begin(), spec.shape.end()},
                       [&architecture, &model, &spec] { return values_of(architecture, model, spec); }});
  }
  write_safetensors(folder + "/adapter_model.safetensors", tensors, kExportMetadata,
                    find_float_type(exported.dtype));
  const json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", nullptr},
                       {"r", model.config.lora_rank},
                       {"lora_alpha", model.config.lora_alpha},
                       {"lora_dropout", model.config.lora_dropout},
                       {"target_modules", targets},
                       {"fan_in_fan_out", transposed},
                       {"bias", "none"},
                       {"inference_mode", true}};
  write_file(folder + "/adapter_config.json", to_text(config, 2) + "\n");
  return counted(static_cast<double>(tensors.size() / 2), "adapter") + " for " + architecture.model_class +
         ", in the layout of peft; --lora-merge exports the whole model";
}
