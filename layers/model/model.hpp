#pragma once
// The whole model: embedding → blocks → final norm → classifier, forward and backward.

#include <cstdint>
#include <string>
#include <vector>

#include "block.hpp"
#include "layers/kernels/buffer.hpp"
#include "resolve.hpp"

// Parameters, or their gradients.
struct ModelTensors {
  float* token = nullptr;     // (V,C)
  float* position = nullptr;  // (context,C), learned positions only
  Norm embedding_norm;        // only where asked for
  std::vector<Block> blocks;
  Norm final_norm;            // only where the placement has one
  float* head = nullptr;      // (V,C), null where tied to `token`
  float* head_bias = nullptr;  // (V), only where asked for
};
ModelTensors declare_model(Layout& layout, const Config& config);

struct Model {
  Config config;  // resolved
  std::vector<TensorSpec> table;
  size_t floats = 0;  // in each of the two buffers
  Buffer weights, gradients;
  ModelTensors p, g;
  RopeTable rope;
  Buffer sinusoids, slopes;  // (context,C); (H) of ALiBi; one of the three at most, as Config::position says

  // Weights are zero until they are initialised or loaded. Without training there are no gradients.
  // Throws std::bad_alloc or std::overflow_error where the model cannot exist.
  explicit Model(const Config& config, bool training = true);
};

// Every tensor from (seed, its name), so that adding a tensor changes no other.
void initialise(Model& model, uint64_t seed);

// What a step keeps and scribbles on, for up to B sequences of up to T tokens. For training there is one
// BlockSaved a block; with Config::recompute they share all but y, which is the next block's input; without training
// they share all. Blocks share only with blocks of the same placement row (Mix-LN has two).
struct Activations {
  std::vector<TensorSpec> table;
  Buffer buffer;

  float *embedded = nullptr, *x = nullptr;  // (N,C) token + position, and what enters the first block
  NormSaved embedding_norm;
  std::vector<BlockSaved> blocks;
  NormSaved final_norm;
  float* final = nullptr;   // (N,C) what the classifier reads
  float* losses = nullptr;  // (N)
  float* logits = nullptr;  // (classifier_rows, V)
  float* d = nullptr;       // (N,C) the gradient of the stream
  BlockScratch scratch;
};
Activations declare_activations(Layout& layout, const Config& config, int B, int T, bool training);
Activations allocate_activations(const Config& config, int B, int T, bool training);

// One batch: B sequences of T tokens each. targets (B,T): the token that follows, or kIgnore.
struct Batch {
  const int* tokens;
  const int* targets;
  int B, T;
};

// Sum of the losses of all counted targets, in nats.
double model_loss(const Model& model, const Activations& activations, const Batch& batch);

// What the classifier reads, (N,C); it lies in the activations.
const float* model_features(const Model& model, const Activations& activations, const Batch& batch);

// Looks on while a training pass goes backward; changes nothing.
struct Observer {
  virtual ~Observer() = default;
  // Before the backward of block `layer`: its input x (N,C), all it saved, and dy (N,C), the gradient of its output.
  virtual void block(int layer, const float* x, const BlockSaved& saved, const float* dy, int B, int T) = 0;
  // Once: the embedding's norm and the final norm, whose input is y (N,C) of the last block.
  virtual void outside(const Activations& activations, const float* y, int B, int T) = 0;
};

// The loss again, and its gradients: model.gradients += scale · d(sum of losses). Dropout acts here only, and BatchNorm
// takes the statistics of the batch, by which it moves its running ones.
double model_loss_and_gradients(Model& model, const Activations& activations, const Batch& batch, float scale,
                                const Dropout& dropout, Observer* observer = nullptr);

// Keys and values of all layers, for one sequence of up to T tokens.
struct ModelCache {
  int T;
  Buffer rows;   // (L, T, 2·KV·D)
  int past = 0;  // tokens it holds

  ModelCache(const Config& config, int T);
  float* layer(const Config& config, int l) const;
};

// Reads T further tokens of one sequence and returns the logits (V) of what follows the last of them.
const float* model_logits(const Model& model, const Activations& activations, ModelCache& cache,
                          const int* tokens, int T);
