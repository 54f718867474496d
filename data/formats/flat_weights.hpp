#pragma once
// Files of weights without names, as llm.c and llama2.c have them: tensors in a known order, one right behind the
// other, each of all layers.

#include <cstdint>
#include <string>
#include <vector>

#include "data/formats/huggingface/architectures.hpp"
#include "data/host/files.hpp"
#include "layers/model/model.hpp"

enum class FlatType { f32, bf16 };

// The file of such a model, given it or its folder.
constexpr const char* kFlatFile = "model.bin";
std::string flat_file(const std::string& path);

// A number of the header, as a key of config.json.
ConfigField header_field(const char* key, int Config::*member);

// A tensor of such a file.
struct FlatRow {
  std::vector<std::string> ours;  // concatenated; rows with a '#' repeat for each layer
  RowOf row_of = nullptr;         // maps a row of ours to its row in theirs; null: the same
  uint64_t others = 0;            // numbers behind them that are none of ours
  float (*other)(uint64_t i, const Config& config) = nullptr;  // the i-th of these, when written; null: 0
};

// Numbers in the file. Looks at one layer only, so that a header may be checked that asks for a huge model. All tensors
// of the model must be in the rows, or it throws std::logic_error.
uint64_t count_flat(const std::vector<FlatRow>& rows, const Config& config);

// Fills `buffer`, which has the layout of a model with this Config, from byte `at` of the file on.
void read_flat(float* buffer, const InputFile& file, uint64_t at, FlatType type, const std::vector<FlatRow>& rows,
               const Config& config);

// Appends the numbers of `buffer`, which has the layout `table`. A tensor that is not in the table, but that a model
// with this Config has, is written as zeros: a bias. Throws std::runtime_error if a number is too large for the type.
void write_flat(WholeFile& file, FlatType type, const std::vector<FlatRow>& rows, const Config& config,
                const std::vector<TensorSpec>& table, const float* buffer);
