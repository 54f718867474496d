#pragma once
// The model classes of Hugging Face's transformers that a Config can be: their config.json and the names of their
// tensors, as tables.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "class_fields.hpp"
#include "class_modules.hpp"

struct Architecture {
  const char *model_type, *model_class;
  const char* preset;   // of ours, with the same wiring
  bool always_biased;   // a model without biases has zeros there
  ConfigFields fields;  // the rest of the Config is the preset's
  Modules modules;      // none: our names
  nlohmann::json variant = nlohmann::json::object();  // values in config.json that tell rows of one model_type apart
};
const std::vector<Architecture>& architectures();
const Architecture* find_architecture(const nlohmann::json& file);  // of a config.json, or null

// The resolved Config of a config.json. Throws std::runtime_error or std::invalid_argument.
Config config_of(const Architecture& architecture, const nlohmann::json& file);
nlohmann::json config_json(const Architecture& architecture, const Config& config);

// The first of the rows that computes what a model of this Config does.
struct Expressed {
  const Architecture& architecture;
  Config config;    // the same, with the biases that the class always has
  std::string why;  // not the nearest of the rows before: "LlamaForCausalLM has no --logit-cap 3 (it has 0)"; or ""
};
// Throws std::invalid_argument naming the option that the nearest row cannot express. `kind` is what errors call a row.
// The last of architectures() expresses every Config.
Expressed expressed(const Config& config, const std::vector<Architecture>& rows = architectures(),
                    const std::string& kind = "model class of transformers");
