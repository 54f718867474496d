#pragma once
// Reads adapters in the layout of Hugging Face's peft: adapter_config.json and adapter_model.safetensors. The model
// that they adapt, their base, is in a folder of its own.

#include <memory>
#include <string>

#include "data/formats/foreign_model.hpp"

struct Architecture;

// True for a folder with an adapter_config.json.
bool has_adapters(const std::string& folder);

// Returns the folder of the base: base_model_name_or_path of adapter_config.json, or the adapters' own folder if it has
// a config.json. Throws std::runtime_error if neither is here.
std::string base_of_adapters(const std::string& folder);

// Opens the adapters on their base, which is of this class and in the folder `base_folder`. Throws std::runtime_error
// if the adapters do not fit the base, or compute anything that the options of --lora do not say.
std::unique_ptr<ForeignModel> open_adapters(const std::string& folder, std::unique_ptr<ForeignModel> base,
                                            const std::string& base_folder, const Architecture& architecture);
