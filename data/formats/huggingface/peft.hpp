#pragma once
// Adapters (layers/linear/lora.hpp) in the layout of Hugging Face's peft: adapter_config.json and
// adapter_model.safetensors, beside the model that they were trained on.

#include <string>

#include "data/formats/other_model.hpp"

// Config::lora_shared of a model: the joined matrices, "qkv" and "gate_up", that are one in its class of transformers.
std::string joined_matrices(const Config& config);

// Writes the adapters of a model into an existing folder. Returns a line about them. Throws std::runtime_error.
std::string write_adapters(const std::string& folder, const ExportedModel& exported);
