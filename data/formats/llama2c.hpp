#pragma once
// Reads and writes llama2.c's models, version 0 (karpathy/llama2.c: legacy_export in export.py, read_checkpoint in
// run.c). Little-endian:
//
//   NAME.bin   int32[7]: channels C, hidden width F, layers L, heads H, key/value heads K, vocabulary V, context T; V
//              is negative if the classifier is not tied
//              then in f32, each tensor for all layers: token embedding (V,C), attention's norm (C), q (C,C), k and v
//              (K·D,C), o (C,C), the FFN's norm (C), gate (F,C), down (C,F), up (F,C); final norm (C); cosines and
//              sines of RoPE (T,D/2); the classifier (V,C) if it is not tied
//   tokenizer.bin   (data/tokenizer/files/piece_files.hpp)
//
// The file has no magic number and stores neither epsilon (1e-5) nor RoPE's base (10000). Its RoPE rotates channels 2i
// and 2i + 1 of a head; ours rotates i and i + D/2. So the rows of q and k have another order.

#include <memory>
#include <string>

#include "foreign_model.hpp"

inline constexpr const char* kLlama2cTokenizer = "tokenizer.bin";

// True for a model file, or a folder with model.bin, whose header is plausible.
bool is_llama2c(const std::string& path);
std::unique_ptr<ForeignModel> open_llama2c(const std::string& path);

// Throws std::invalid_argument that names the option that llama2.c does not have.
void check_llama2c(const ExportedModel& exported);

// Writes model.bin and tokenizer.bin into an existing folder.
std::string write_llama2c(const std::string& folder, const ExportedModel& exported);
bool is_llama2c_export(const std::string& folder);  // true if write_llama2c() wrote both files
