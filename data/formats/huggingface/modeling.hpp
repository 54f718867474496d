#pragma once
// A model class of our own for Hugging Face's transformers: modeling_train_gpt.py, in plain PyTorch. It computes every
// Config, so that a model without a class in transformers can be handed over with its code.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "layers/config/config.hpp"

inline constexpr const char *kModelingFile = "modeling_train_gpt.py", *kModelingType = "train_gpt",
                            *kModelingClass = "TrainGPTForCausalLM";

// The text of the file, which the Makefile compiles into the program.
std::string modeling_text();

// Adds to a config.json what the class reads, and our settings; `config` is resolved.
void write_modeling_config(nlohmann::json& file, const Config& config);

// The Config of those settings. Throws std::runtime_error or std::invalid_argument.
Config read_modeling_config(const nlohmann::json& file);
