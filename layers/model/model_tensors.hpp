#pragma once
// The parameters of a model, or their gradients.

#include <vector>

#include "block.hpp"
#include "layers/embedding/unit_rows.hpp"
#include "layers/streams/stream_ends.hpp"

// Before the names of an encoder's tensors and activations.
constexpr const char* kEncoder = "encoder.";

// Parameters of a stack, or their gradients.
struct StackTensors : EndNorms {
  float* position = nullptr;  // (context,C), learned positions only
  float* relative = nullptr;  // (relative_buckets,H), relative positions only
  float* types = nullptr;     // (token_types,C), if there are any
  Norm embedding_norm;        // if enabled
  std::vector<Block> blocks;
};

// Parameters, or their gradients. What is inherited is the only stack, or the decoder.
struct ModelTensors : StackTensors {
  Matrix token;       // (V,E), E being C unless the embedding is projected
  Linear project_in;  // (C,E), if it is
  StackTensors encoder;
  Linear transform;           // (C,C) of the head, if enabled
  Norm transform_norm;
  Linear project_out;         // (E,C), if the embedding is projected
  Matrix head;                // (V,E), null if tied to `token`
  float* head_bias = nullptr;  // (V), if enabled
  RowGain logit_gain;          // (V), if enabled
};
ModelTensors declare_model(Layout& layout, const Config& config);
