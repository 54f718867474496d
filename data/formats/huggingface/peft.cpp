#include "peft.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "companions.hpp"
#include "data/files/files.hpp"
#include "data/files/json.hpp"
#include "data/formats/safetensors.hpp"
#include "data/strings/format.hpp"
#include "layers/config/placements.hpp"
#include "peft_modules.hpp"

using nlohmann::json;

std::string joined_matrices(const Config& config, const CompanionFiles& companions) {
  if (config.placement_row->streams != StreamRule::single) return "";  // no class has these
  return joined_matrices(class_of(config.without_lora(), companions));
}

void check_adapters(const ExportedModel& exported) {
  const Model& model = exported.model;
  if (model.config.crosses())
    throw std::runtime_error("train_gpt writes no adapters of a model with an encoder: add --lora-merge");
  if (joined_matrices(model.config, exported.companions) != model.config.lora_shared)
    throw std::runtime_error("these adapters fit no class of transformers: add --lora-merge");
}

std::string write_adapters(const std::string& folder, const ExportedModel& exported) {
  const Model& model = exported.model;
  const Architecture& architecture = class_of(model.config.without_lora(), exported.companions);
  const std::vector<AdapterTensor> adapters = adapter_tensors(architecture, model.config);
  std::set<std::string> targets;
  std::vector<NewTensor> tensors;
  for (const AdapterTensor& t : adapters) {
    targets.insert(t.target);
    tensors.push_back({t.name, {t.spec.shape.begin(), t.spec.shape.end()}, [&t, &model] {
                         const float* ours = model.weights.get() + t.spec.offset;
                         std::vector<float> values(t.spec.size());
                         const size_t width = t.spec.shape[1];
                         for (size_t r = 0; r < t.rows.size(); ++r)
                           std::copy_n(ours + r * width, width, values.data() + t.rows[r] * width);
                         return values;
                       }});
  }
  write_safetensors(folder + kAdapterWeights, tensors, kExportMetadata, find_float_type(exported.dtype));
  const json config = {{"peft_type", "LORA"},
                       {"task_type", "CAUSAL_LM"},
                       {"base_model_name_or_path", exported.base.empty() ? json() : json(exported.base)},
                       {"r", model.config.lora_rank},
                       {"lora_alpha", model.config.lora_alpha},
                       {"lora_dropout", model.config.lora_dropout},
                       {"target_modules", targets},
                       {"fan_in_fan_out", adapters.back().transposed},
                       {"bias", "none"},
                       {"inference_mode", true}};
  write_file(folder + kAdapterConfig, to_text(config, 2) + "\n");
  return counted(static_cast<double>(tensors.size() / 2), "adapter") + " for " + architecture.model_class +
         ", in the layout of peft; --lora-merge exports the whole model";
}
