#pragma once
// What a model computes for a batch and keeps for the backward pass, and its scratch buffers.

#include <vector>

#include "block.hpp"
#include "layers/embedding/unit_rows.hpp"
#include "layers/kernels/buffer.hpp"
#include "layers/streams/stream_ends.hpp"

// What the head's transform saves: h → up → active → y, each (N,C).
struct TransformSaved {
  float *up = nullptr, *active = nullptr, *y = nullptr;
  NormSaved norm;
};

// What a stack computes, and its scratch buffers.
struct StackActivations {
  UnitRows token_rows;                      // (V,E) of the token embedding, under fix_norm; both stacks have the same
  float* token = nullptr;                   // (N,E) before its projection, else null
  float *embedded = nullptr, *x = nullptr;  // (N,C) token + position + type; after its norm
  float* streams = nullptr;                 // (S,N,C) the first block's input; x if there is one stream
  NormSaved embedding_norm, first_norm;
  std::vector<BlockSaved> blocks;
  StreamsEnd end;            // its h (N,C) is what the head, or the decoder, reads
  float* d = nullptr;        // (S,N,C) the gradient of the stream
  float* dnarrow = nullptr;  // (N,E) the gradient of token
  float* relative = nullptr;  // (H,distances) the biases of relative positions
  Carried carried;
  BlockScratch scratch;
};

// Activations and scratch buffers of one step, for up to B sequences of up to T tokens, and as many sources.
struct Activations : StackActivations {
  std::vector<TensorSpec> table;
  Buffer buffer;

  StackActivations encoder;
  TransformSaved transform;
  UnitRows head_rows;       // (V,E) of the classifier, under fix_norm or logit_gain; token_rows if it is tied
  float* narrow = nullptr;  // (N,E) the classifier's input if the embedding is projected, else null; dnarrow serves it
  float* losses = nullptr;  // (N)
  float* logits = nullptr;  // (classifier_rows, V)
};
Activations declare_activations(Layout& layout, const Config& config, int B, int T, bool training);
Activations allocate_activations(const Config& config, int B, int T, bool training);
