#pragma once
// safetensors, the file format of Hugging Face's weights (huggingface/safetensors, README.md):
//
//   u64     length of the header, at most 100 MB; all numbers are little-endian
//   header  JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}, ...}; offsets count from
//           the end of the header; "__metadata__" holds strings
//   data    the tensors, row-major, without gaps
//
// A folder holds model.safetensors, or several such files and model.safetensors.index.json, which lists them.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "data/files/files.hpp"
#include "float_types.hpp"

enum class TensorType { f32, f16, bf16, other };

// A tensor in a file.
struct StoredTensor {
  std::string name, type_name;
  TensorType type = TensorType::other;
  std::vector<uint64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, from the start of the file
  size_t file = 0;

  uint64_t size() const;  // in elements
};

// The tensors of a file or a folder. Opening reads the headers and checks them against the file sizes, so that a wrong
// header cannot make the program allocate more than the files hold. Throws std::runtime_error in one line that names
// the file.
class StoredTensors {
 public:
  explicit StoredTensors(const std::string& file_or_folder);
  explicit StoredTensors(std::shared_ptr<const InputFile> file);

  const std::vector<StoredTensor>& all() const { return tensors_; }
  const StoredTensor* find(const std::string& name) const;  // null if absent
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path_of(const StoredTensor& tensor) const;

  // Convert all numbers of a tensor to floats, or n numbers from number `first` on.
  void read(float* to, const StoredTensor& tensor) const { read(to, tensor, 0, tensor.size()); }
  void read(float* to, const StoredTensor& tensor, uint64_t first, uint64_t n) const;

 private:
  void open(std::shared_ptr<const InputFile> file);
  void open_shards(const std::string& folder);
  void sort();

  std::vector<std::shared_ptr<const InputFile>> files_;
  std::vector<StoredTensor> tensors_;  // sorted by name
  std::map<std::string, std::string> metadata_;
};

// A tensor to write. The writer calls values() when it needs the floats.
struct NewTensor {
  std::string name;
  std::vector<uint64_t> shape;
  std::function<std::vector<float>()> values;
  const FloatType* type = nullptr;  // null: the file's
};

// Returns the beginning of the file `path`, up to its data, for tensors in this order, of this type unless they have
// one of their own. Does not call values(). The length is a multiple of `alignment` bytes. Throws std::runtime_error if
// the header is longer than the format allows.
std::string safetensors_header(const std::string& path, const std::vector<NewTensor>& tensors,
                               const std::map<std::string, std::string>& metadata, size_t alignment,
                               const FloatType& type = kFloat32);

// The metadata of exported files. Hugging Face's tools read `format`.
inline const std::map<std::string, std::string> kExportMetadata = {{"format", "pt"}, {"writer", "train_gpt"}};

// Writes tensors of this type sorted by name, as the official writer does. Throws std::runtime_error, and then keeps an
// older file.
void write_safetensors(const std::string& path, std::vector<NewTensor> tensors,
                       const std::map<std::string, std::string>& metadata, const FloatType& type = kFloat32);
