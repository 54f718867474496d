#pragma once
// Reads and writes folders of Hugging Face's transformers: config.json and safetensors. architectures.hpp lists the
// model classes.

#include <memory>
#include <string>

#include "data/formats/foreign_model.hpp"

struct Architecture;

// True for a folder with a config.json, or with an adapter_config.json of peft.
bool is_huggingface_folder(const std::string& path);

// Throw std::runtime_error if the folder is damaged or train_gpt does not have its model. Adapters are opened on the
// base that they name, or on another one.
std::unique_ptr<ForeignModel> open_huggingface(const std::string& folder);
std::unique_ptr<ForeignModel> open_adapted(const std::string& adapters, const std::string& base);

// Returns the folder of transformers that has the whole weights of this folder's model: the base of adapters, or the
// folder itself. "" if it is none, or if the base is not here.
std::string whole_model_of(const std::string& folder);

// Throws std::invalid_argument if a weight is too large for the number type.
void check_huggingface(const ExportedModel& exported);

// Writes the model and the other files that transformers reads into an existing folder. Unless the tokenizer is a
// byte-pair encoding, config.json holds it, too; transformers ignores it there. For a model without a class in
// transformers, also writes its code (modeling.hpp).
std::string write_huggingface(const std::string& folder, const ExportedModel& exported);

// The names of the files that write_huggingface() may write.
std::vector<std::string> files_of_huggingface();

// True if write_huggingface() wrote the folder's weights.
bool is_huggingface_export(const std::string& folder);
