#pragma once
// Files of weights without names, as in llm.c and llama2.c: tensors in a known order without gaps, each for all layers.

#include <cstdint>
#include <string>
#include <vector>

#include "data/files/files.hpp"
#include "data/formats/huggingface/architectures.hpp"
#include "foreign_model.hpp"

enum class FlatType { f32, bf16 };

// Returns the model's file, given the file or its folder.
constexpr const char* kFlatFile = "model.bin";
std::string flat_file(const std::string& path);

// A number in the header, treated like a key of config.json.
ConfigField header_field(const char* key, int Config::*member);

// A tensor in such a file.
struct FlatRow {
  std::vector<std::string> ours;  // concatenated; a name with '#' repeats for each layer
  ForeignRow foreign_row = nullptr;  // maps our row to theirs; null if they are equal
  uint64_t others = 0;            // numbers after them that our model does not have
  float (*other)(uint64_t i, const Config& config) = nullptr;  // what to write for the i-th of these; null for 0
};

// Returns how many numbers the file holds. Looks at one layer only, so it can check a header that asks for a huge
// model. Throws std::logic_error if the rows lack a tensor of the model.
uint64_t count_flat(const std::vector<FlatRow>& rows, const Config& config);

// Reads all tensors from byte `at` of the file on. The file's model has this Config.
void read_flat(const TensorPlaces& to, const InputFile& file, uint64_t at, FlatType type,
               const std::vector<FlatRow>& rows, const Config& config);

// Appends the numbers of `buffer`, which has the layout `table`. Writes zeros for a tensor (a bias) that a model with
// this Config has but the table lacks. Throws std::runtime_error if a number is too large for the type.
void write_flat(WholeFile& file, FlatType type, const std::vector<FlatRow>& rows, const Config& config,
                const std::vector<TensorSpec>& table, const float* buffer);

// A model in such a file, with its tokenizer in a file next to it.
class FlatModel : public ForeignModel {
 public:
  const Config& config() const override { return config_; }
  Tokenizer tokenizer() const override;
  void load(const TensorPlaces& to) const override;

 protected:
  FlatModel(const std::string& path, const char* tokenizer_name, Tokenizer (*read_tokenizer)(const std::string& path));
  // Sets what the header says. Throws std::runtime_error if that does not fit the size of the file.
  void set(const Config& config, uint64_t header_bytes, FlatType type, std::vector<FlatRow> rows);

  InputFile file_;

 private:
  std::string tokenizer_name_;
  Tokenizer (*read_tokenizer_)(const std::string& path);
  Config config_;
  uint64_t header_bytes_ = 0;
  FlatType type_ = FlatType::f32;
  std::vector<FlatRow> rows_;
};
