#pragma once
// Reads and writes llm.c's GPT-2 (karpathy/llm.c: write_model and write_state in train_gpt2.py,
// gpt2_build_from_checkpoint in train_gpt2.c). Little-endian:
//
//   NAME.bin   int32[256]: 20240326, version, context T, vocabulary V, layers L, heads, channels C, padded vocabulary
//              P; the rest is 0. Version 3 has f32, 5 has bf16
//              then the tensors, each for all layers: token embedding (P,C), positions (T,C), norm 1, q|k|v,
//              attention's output, norm 2, up, down, final norm; for each, the weights of all layers and then their
//              biases
//   NAME_debug_state.bin   int32[256]: 20240327, 2, batch B, T; the rest is 0
//              then tokens (B,T) and targets (B,T) in int32, logits (B,T,V) and the mean loss in f32, and its gradients
//              in f32 as in NAME.bin
//   gpt2_tokenizer.bin   (data/tokenizer/llmc_tokenizer.hpp)
//
// llm.c pads the vocabulary to a multiple of 128 rows. Our models have V rows; the padding is written as zeros and
// ignored when read.

#include <memory>
#include <string>
#include <vector>

#include "foreign_model.hpp"

inline constexpr const char* kLlmcTokenizer = "gpt2_tokenizer.bin";

// True for a model file, or a folder with model.bin.
bool is_llmc(const std::string& path);
std::unique_ptr<ForeignModel> open_llmc(const std::string& path);

// Throws std::invalid_argument that names the option that llm.c's GPT-2 does not have.
void check_llmc(const ExportedModel& exported);

// Writes model.bin and gpt2_tokenizer.bin into an existing folder.
std::string write_llmc(const std::string& folder, const ExportedModel& exported);
bool is_llmc_export(const std::string& folder);  // true if write_llmc() wrote both files

// One batch, and the logits, loss and gradients that a model computes from it.
struct DebugState {
  int B, T;
  std::vector<int> tokens, targets;  // (B,T)
  std::vector<float> logits;         // (B,T,V)
  float loss;                        // the mean, in nats
  std::vector<float> gradients;      // laid out as the model's weights
};

// Runs the model forward and backward. Overwrites model.gradients.
DebugState debug_state(Model& model, const std::vector<int>& tokens, const std::vector<int>& targets, int B, int T);

void write_debug_state(const std::string& path, const Model& model, const DebugState& state);
// Throws std::runtime_error in one line that names the file if it does not fit the model. The model must have all
// biases.
DebugState read_debug_state(const std::string& path, const Model& model);
