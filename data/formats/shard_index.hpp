#pragma once
// model.safetensors.index.json and pytorch_model.bin.index.json, which list the weights of a model in several files:
//
//   {"weight_map": {"TENSOR": "model-00001-of-00002.safetensors", ...}}

#include <map>
#include <string>
#include <vector>

class ShardIndex {
 public:
  // Throws std::runtime_error that names the file.
  ShardIndex(const std::string& folder, const std::string& name);

  std::vector<std::string> files() const;  // their names, each once

  // Throw std::runtime_error unless the tensor is listed in this file, and unless so many tensors are listed.
  void require(const std::string& tensor, const std::string& file) const;
  void require_all(size_t tensors) const;

 private:
  [[noreturn]] void fail(const std::string& why) const;

  std::string folder_, path_;
  std::map<std::string, std::string> file_of_;  // by tensor
};
