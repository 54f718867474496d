#pragma once
// Reads and writes llm.c's GPT-2 (karpathy/llm.c: write_model and write_state in train_gpt2.py,
// gpt2_build_from_checkpoint in train_gpt2.c). Little-endian:
//
//   NAME.bin   int32[256]: 20240326, version, context T, vocabulary V, layers L, heads, channels C, padded vocabulary
//              P; the rest is 0. Version 3 has f32, 5 has bf16
//              then the tensors, each for all layers: token embedding (P,C), positions (T,C), norm 1, q|k|v,
//              attention's output, norm 2, up, down, final norm; for each, the weights of all layers and then their
//              biases
//   gpt2_tokenizer.bin   (data/tokenizer/files/llmc_tokenizer.hpp)
//
// llm.c pads the vocabulary to a multiple of 128 rows. Our models have V rows; the padding is written as zeros and
// ignored when read.

#include <memory>
#include <string>
#include <vector>

#include "flat_weights.hpp"
#include "foreign_model.hpp"

inline constexpr const char* kLlmcTokenizer = "gpt2_tokenizer.bin";

// The vocabulary as llm.c pads it, and the tensors in its model files, in order.
int llmc_padded(int vocabulary);
std::vector<FlatRow> llmc_rows(const Config& config, int padded_vocabulary);

// True for a model file, or a folder with model.bin.
bool is_llmc(const std::string& path);
std::unique_ptr<ForeignModel> open_llmc(const std::string& path);

// Throws std::invalid_argument that names the option that llm.c's GPT-2 does not have.
void check_llmc(const ExportedModel& exported);

// Writes model.bin and gpt2_tokenizer.bin into an existing folder.
std::string write_llmc(const std::string& folder, const ExportedModel& exported);
bool is_llmc_export(const std::string& folder);  // true if write_llmc() wrote both files
