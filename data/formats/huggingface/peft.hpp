#pragma once
// Writes adapters (layers/linear/lora.hpp) in the layout of Hugging Face's peft: adapter_config.json and
// adapter_model.safetensors. peft_model.hpp reads them.

#include <string>

#include "data/formats/foreign_model.hpp"

// Returns Config::lora_shared of a model: which of the joined matrices, "qkv" and "gate_up", its class in transformers
// stores as one. `companions` are the files that the model came with.
std::string joined_matrices(const Config& config, const CompanionFiles& companions);

// Throws std::runtime_error if no class of transformers has a model's adapters.
void check_adapters(const ExportedModel& exported);

// Writes the adapters of a model into an existing folder. Returns a line about them. Throws std::runtime_error.
std::string write_adapters(const std::string& folder, const ExportedModel& exported);
