#pragma once
// The whole model: embedding → blocks → final norm → classifier, forward and backward.

#include <cstdint>
#include <string>
#include <vector>

#include "block.hpp"
#include "layers/kernels/buffer.hpp"
#include "layers/streams/stream_ends.hpp"
#include "resolve.hpp"

// Parameters, or their gradients.
struct ModelTensors {
  float* token = nullptr;     // (V,C)
  float* position = nullptr;  // (context,C), learned positions only
  Norm embedding_norm;        // if enabled
  std::vector<Block> blocks;
  Norm final_norm;            // if the placement has one
  float* head = nullptr;      // (V,C), null if tied to `token`
  float* head_bias = nullptr;  // (V), if enabled
};
ModelTensors declare_model(Layout& layout, const Config& config);

struct Model {
  Config config;  // resolved
  std::vector<TensorSpec> table;
  size_t floats = 0;  // of the weights
  size_t gradient_floats = 0;
  Buffer weights, gradients;
  ModelTensors p, g;
  RopeTable rope;
  std::vector<double> load;  // (L,E) choices of each expert since it was cleared, in training; see router.hpp
  Buffer sinusoids, slopes;  // (context,C); (H) of ALiBi. At most one of the three exists, by Config::position

  // Weights are zero until they are initialized or loaded. Gradients exist only for training.
  // Throws std::bad_alloc or std::overflow_error if the model is too large.
  explicit Model(const Config& config, bool training = true);
};

// Allocates zeros for the gradients of the tensors that train. Call it again when TensorSpec::trained has changed.
void allocate_gradients(Model& model);

// Makes the model add its gradients to this buffer, and puts the buffer that it had in its place.
void swap_gradients(Model& model, Buffer& gradients);

// The model with its adapters (layers/linear/lora.hpp) added to its weights.
Model merged(const Model& model);

// Draws every tensor from (seed, its name), so adding a tensor changes no other.
void initialize(Model& model, uint64_t seed);

// Activations and scratch buffers of one step, for up to B sequences of up to T tokens.
struct Activations {
  std::vector<TensorSpec> table;
  Buffer buffer;

  float *embedded = nullptr, *x = nullptr;  // (N,C) token + position; the same after its norm
  float* streams = nullptr;                 // (S,N,C) input of the first block; x if there is one stream
  NormSaved embedding_norm;
  std::vector<BlockSaved> blocks;
  StreamsEnd end;           // its h (N,C) is the input of the classifier
  float* losses = nullptr;  // (N)
  float* logits = nullptr;  // (classifier_rows, V)
  float* d = nullptr;       // (S,N,C) the gradient of the stream
  Carried carried;
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

// The logits (N,V) of all rows, capped if the model caps them. batch.targets may be null.
void batch_logits(float* logits, const Model& model, const Activations& activations, const Batch& batch);

// The input of the classifier (N,C), inside the activations.
const float* model_features(const Model& model, const Activations& activations, const Batch& batch);

// Called during the backward pass. May change only gradients that are complete: those of later layers.
struct Observer {
  virtual ~Observer() = default;
  // Called before the backward of block `layer` with its input x (S,N,C), all it saved, and dy (S,N,C), the gradient of
  // its output.
  virtual void block(int layer, const float* x, const BlockSaved& saved, const float* dy, int B, int T) = 0;
  // Called once, for the embedding's norm and the final norm. y (S,N,C) is the output of the last
  // block.
  virtual void outside(const Activations& activations, const float* y, int B, int T) = 0;
};

// Returns the same sum and adds its gradients: model.gradients += scale · d(sum of losses). Only here does dropout
// act, and BatchNorm use the statistics of the batch and update its running ones.
double model_loss_and_gradients(Model& model, const Activations& activations, const Batch& batch, float scale,
                                const Dropout& dropout, Observer* observer = nullptr);

// Keys and values of all layers, for B sequences of up to T tokens.
struct ModelCache {
  int B, T;
  Buffer rows;   // (L, B, T, 2·KV·D)
  int past = 0;  // number of tokens of each sequence in it

  ModelCache(const Config& config, int T, int B = 1);
  size_t sequence(const Config& config) const;                   // floats of one sequence in a layer
  float* layer(const Config& config, int l, int first = 0) const;  // from the sequence `first` on
};

// Reads T more tokens of each of B sequences of the cache, from the sequence `first` on: tokens (B,T). Writes the
// logits (B,V) of the tokens after the last. Does not change cache.past, which is common to all sequences. The
// activations are of at least B·T rows. The logits of a sequence have the same bits for every B.
void model_logits(float* logits, const Model& model, const Activations& activations, const ModelCache& cache,
                  const int* tokens, int B, int T, int first = 0);

// Reads T more tokens of the first sequence. Returns the logits (V) of the token after the last.
const float* model_logits(const Model& model, const Activations& activations, ModelCache& cache,
                          const int* tokens, int T);
