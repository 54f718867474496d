#pragma once
// Reads the header of a GGUF file (gguf.hpp has the layout), version 2 or 3.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "data/files/files.hpp"
#include "ggml_types.hpp"

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> shape;  // rows first, unlike the file
  const GgmlType* type = nullptr;
  uint64_t begin = 0;           // bytes, from the start of the file
  uint64_t bytes = 0;
};

// Opening checks every size against the size of the file, so that a wrong header cannot make the program allocate more
// than the file holds. Throws std::runtime_error in one line that names the file.
class GgufFile {
 public:
  explicit GgufFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const nlohmann::json& keys() const { return keys_; }  // texts may be no UTF-8
  const std::vector<GgufTensor>& tensors() const { return tensors_; }

  // Converts all numbers of a tensor to floats.
  void read(float* to, const GgufTensor& tensor) const;

 private:
  InputFile file_;
  nlohmann::json keys_ = nlohmann::json::object();
  std::vector<GgufTensor> tensors_;
};
