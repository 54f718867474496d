#pragma once
// Our own model classes for Hugging Face's transformers: modeling_train_gpt.py, in plain PyTorch. One computes every
// Config that predicts the next token, one those that predict masked tokens, and one those with an encoder and a
// decoder. So a model without a class in transformers is exported with its code.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "layers/config/config.hpp"

inline constexpr const char *kModelingFile = "modeling_train_gpt.py", *kModelingType = "train_gpt",
                            *kModelingClass = "TrainGPTForCausalLM", *kMaskedModelingClass = "TrainGPTForMaskedLM",
                            *kPairsModelingClass = "TrainGPTForSeq2SeqLM";

// The text of the file, which the Makefile compiles into the program.
std::string modeling_text();

// Adds our settings and what the class reads to a config.json. `config` is resolved.
void write_modeling_config(nlohmann::json& file, const Config& config);

// Returns the Config of those settings. Throws std::runtime_error or std::invalid_argument.
Config read_modeling_config(const nlohmann::json& file);
