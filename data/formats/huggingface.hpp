#pragma once
// Folders of Hugging Face's transformers: config.json and safetensors. architectures.hpp lists the model classes.

#include <memory>
#include <string>

#include "other_model.hpp"

// A folder with a config.json.
bool is_huggingface_folder(const std::string& path);

// Throws std::runtime_error if the folder is damaged or its model is none of ours.
std::unique_ptr<OtherModel> open_huggingface(const std::string& folder);

// Throws std::invalid_argument naming the option that no class can express.
void check_huggingface(const ExportedModel& exported);

// Writes model.safetensors and config.json into an existing folder, and keeps the tokenizer in config.json, where
// transformers ignores it.
std::string write_huggingface(const std::string& folder, const ExportedModel& exported);
