#pragma once
// llm.c's debug states (karpathy/llm.c: write_state in train_gpt2.py), little-endian:
//
//   int32[256]: 20240327, 2, batch B, T; the rest is 0
//   tokens (B,T) and targets (B,T) in int32, logits (B,T,V) and the mean loss in f32, and the loss's gradients in f32
//   as in a model file (data/formats/llmc.hpp)

#include <string>
#include <vector>

#include "layers/model/model.hpp"

// One batch, with what a model computes from it.
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
// Throws std::runtime_error unless the file is a debug state of this size of model, which has all biases.
DebugState read_debug_state(const std::string& path, const Model& model);
