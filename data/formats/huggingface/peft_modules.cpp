#include "peft_modules.hpp"

#include <map>
#include <string_view>

#include "layers/model/model.hpp"

namespace {

constexpr const char* kParts[] = {"attention.q", "attention.k", "attention.v", "attention.o",
                                  "ffn.gate",    "ffn.up",      "ffn.down"};

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

// Returns the row in their tensor for each row of our b.
std::vector<size_t> foreign_rows(const Architecture& architecture, const Config& config, const std::string& group) {
  std::vector<size_t> rows;
  const size_t D = config.head_dim;
  for (const std::string& part : adapted_parts(group)) {
    const ModuleRow row = module_row(architecture, part);
    const std::map<std::string_view, size_t> sizes = {
        {"attention.q", config.n_head * D}, {"attention.k", config.kv_heads * D}, {"attention.v", config.kv_heads * D},
        {"attention.o", config.channels},   {"ffn.gate", config.hidden},          {"ffn.up", config.hidden},
        {"ffn.down", config.channels}};
    for (size_t r = 0; r < sizes.at(part); ++r) rows.push_back(row.foreign_row ? row.foreign_row(r, config) : r);
  }
  return rows;
}

// Returns the rows of a, in which the order is the same.
std::vector<size_t> own_rows(int count) {
  std::vector<size_t> rows(count);
  for (size_t r = 0; r < rows.size(); ++r) rows[r] = r;
  return rows;
}

// Returns "transformer.h.#.attn.c_attn".
std::string module_name(const ModuleRow& row, const std::string& group) {
  return *row.theirs ? row.theirs : "block.#." + group;
}

std::string tensor_name(std::string module, int layer, const char* factor) {
  return "base_model.model." + module.replace(module.find('#'), 1, std::to_string(layer)) + ".lora_" + factor +
         ".weight";
}

}  // namespace

std::vector<std::string> adapted_parts(const std::string& group) {
  for (const Joined& row : kJoined)
    if (group.ends_with(std::string(".") + row.name)) return {row.parts.begin(), row.parts.end()};
  return {group};
}

std::vector<AdapterTensor> adapter_tensors(const Architecture& architecture, const Config& config) {
  Layout layout;
  declare_model(layout, config);
  std::vector<AdapterTensor> tensors;
  for (const TensorSpec& spec : layout.table()) {
    if (spec.role != Role::adapter) continue;
    const ModuleRow row = module_row(architecture, adapted_parts(spec.group())[0]);
    const std::string module = module_name(row, spec.group());
    const bool is_a = spec.leaf() == "lora_a";
    tensors.push_back({spec, tensor_name(module, spec.layer, is_a ? "A" : "B"), module.substr(module.find('#') + 2),
                       row.transposed,
                       is_a ? own_rows(spec.shape[0]) : foreign_rows(architecture, config, spec.group())});
  }
  return tensors;
}

std::string joined_matrices(const Architecture& architecture) {
  std::string list;
  for (const Joined& row : kJoined) {
    const std::string first = module_row(architecture, row.parts[0]).theirs;
    if (!first.empty() && first == module_row(architecture, row.parts[1]).theirs)
      list += (list.empty() ? "" : ",") + std::string(row.name);
  }
  return list;
}

std::string adapted_matrices(const Architecture& architecture,
                             const std::function<bool(const std::string&)>& is_there) {
  std::string list;
  for (const std::string part : kParts) {
    const ModuleRow row = module_row(architecture, part);
    if (!*row.theirs && !architecture.modules.empty()) continue;
    if (is_there(tensor_name(module_name(row, part), 0, "A")))
      list += (list.empty() ? "" : ",") + part.substr(part.find('.') + 1);
  }
  return list;
}
