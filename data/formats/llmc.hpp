#pragma once
// llm.c's GPT-2 (karpathy/llm.c: write_model and write_state in train_gpt2.py, gpt2_build_from_checkpoint in
// train_gpt2.c). Little-endian:
//
//   NAME.bin   int32[256]: 20240326, version, context T, vocabulary V, layers L, heads, channels C, padded vocabulary
//              P; the rest is 0. Version 3 has f32, 5 has bf16
//              then the tensors, each of all layers: token embedding (P,C), positions (T,C), norm 1, q|k|v, attention's
//              output, norm 2, up, down, final norm; of each the weight of all layers and then the bias of all layers
//   NAME_debug_state.bin   int32[256]: 20240327, 2, batch B, T; the rest is 0
//              then tokens (B,T) and targets (B,T) in int32, logits (B,T,V) and the mean loss in f32, and its gradients
//              in f32 as in NAME.bin
//   gpt2_tokenizer.bin   (data/tokenizer/llmc_tokenizer.hpp)
//
// llm.c pads the vocabulary to a multiple of 128 rows. A model here has the V rows without the others, which are zeros
// when written and ignored when read.

#include <memory>
#include <string>
#include <vector>

#include "other_model.hpp"

inline constexpr const char* kLlmcTokenizer = "gpt2_tokenizer.bin";

// A model file, or a folder with model.bin.
bool is_llmc(const std::string& path);
std::unique_ptr<OtherModel> open_llmc(const std::string& path);

// Throws std::invalid_argument naming the option that GPT-2 in llm.c does not have.
void check_llmc(const ExportedModel& exported);

// Writes model.bin and gpt2_tokenizer.bin into an existing folder.
std::string write_llmc(const std::string& folder, const ExportedModel& exported);
bool is_llmc_export(const std::string& folder);  // it wrote both

// One batch and what a model makes of it.
struct DebugState {
  int B, T;
  std::vector<int> tokens, targets;  // (B,T)
  std::vector<float> logits;         // (B,T,V)
  float loss;                        // the mean, in nats
  std::vector<float> gradients;      // of the loss, with the layout of the model
};

// Runs the model forward and backward. Overwrites model.gradients.
DebugState debug_state(Model& model, const std::vector<int>& tokens, const std::vector<int>& targets, int B, int T);

void write_debug_state(const std::string& path, const Model& model, const DebugState& state);
// Throws std::runtime_error in one line that names the file unless it fits the model, which has all biases.
DebugState read_debug_state(const std::string& path, const Model& model);
