#pragma once
// Folders of Hugging Face's transformers: config.json and safetensors. architectures.hpp lists the model classes.

#include <string>

#include <nlohmann/json.hpp>

#include "layers/model/model.hpp"
#include "safetensors.hpp"

// A folder with a config.json.
bool is_huggingface_folder(const std::string& path);

// A model to read. Opening checks config.json, and the name and shape of every tensor, before anything is allocated.
// Throws std::runtime_error in one line that names the file.
class HuggingFaceModel {
 public:
  explicit HuggingFaceModel(const std::string& folder);

  const Config& config() const { return config_; }  // resolved
  const char* preset() const;  // ours, with the same wiring
  // The tokenizer that write_huggingface() stored, or null.
  const nlohmann::json& tokenizer() const { return tokenizer_; }
  bool has_other_tokenizer() const;

  // Fills the weights of a model with this Config. Throws if a number is not finite.
  void load(Model& model) const;

 private:
  std::string folder_, model_type_;
  Config config_;
  nlohmann::json tokenizer_;
  StoredTensors tensors_;
};

// Writes model.safetensors and config.json into an existing folder, and keeps `tokenizer` in config.json, where
// transformers ignores it. Returns the name of the model class. Throws std::invalid_argument naming the option that no
// class can express, std::runtime_error if it cannot write.
std::string write_huggingface(const std::string& folder, const Model& model, const nlohmann::json& tokenizer);
