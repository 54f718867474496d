#pragma once
// Folders of Hugging Face's transformers: config.json and safetensors. architectures.hpp lists the model classes.

#include <memory>
#include <string>

#include "data/formats/other_model.hpp"

struct Architecture;

// A folder with a config.json.
bool is_huggingface_folder(const std::string& path);

// Throws std::runtime_error if the folder is damaged or its model is none of ours.
std::unique_ptr<OtherModel> open_huggingface(const std::string& folder);

// Every model can be written.
void check_huggingface(const ExportedModel& exported);

// Writes the model, and what else transformers reads, into an existing folder. The tokenizer is also in config.json,
// where transformers ignores it, unless it is a byte-pair encoding. A model that is no class of transformers gets its
// code, too (modeling.hpp).
std::string write_huggingface(const std::string& folder, const ExportedModel& exported);

// The names of the files that it may write.
std::vector<std::string> files_of_huggingface();

// True if it wrote the weights in the folder.
bool is_huggingface_export(const std::string& folder);
