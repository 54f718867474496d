#pragma once
// How to read and write the config.json of each model class of Hugging Face's transformers, field by field.

#include <functional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "layers/config/config.hpp"

// A field of config.json, or a few that belong together. `read` throws std::runtime_error.
struct ConfigField {
  std::function<void(Config&, const nlohmann::json& file)> read;
  std::function<void(nlohmann::json& file, const Config&)> write;
};
using ConfigFields = std::vector<ConfigField>;

ConfigFields causal_fields();  // of every class: no token sees later ones

ConfigFields bloom_fields();
ConfigFields falcon_7b_fields();
ConfigFields falcon_40b_fields();
ConfigFields gemma_fields();
ConfigFields gemma2_fields();
ConfigFields glm_fields();
ConfigFields gpt1_fields();
ConfigFields gpt2_fields();
ConfigFields gpt_bigcode_fields();
ConfigFields gpt_neox_fields();
ConfigFields llama_fields();
ConfigFields mistral_fields();
ConfigFields mixtral_fields();
ConfigFields olmo2_fields();
ConfigFields olmoe_fields();
ConfigFields opt_fields();
ConfigFields phi_fields();
ConfigFields phi3_fields();
ConfigFields qwen2_fields();
ConfigFields qwen3_fields();
ConfigFields qwen3_moe_fields();
ConfigFields stablelm_fields();
ConfigFields starcoder2_fields();
