#pragma once
// The whole model: embedding → blocks → final norm → classifier, forward and backward. The decoder's blocks may read
// what an encoder makes of another text: embedding → its blocks → its final norm.

#include <cstdint>
#include <functional>
#include <vector>

#include "activations.hpp"
#include "layers/kernels/buffer.hpp"
#include "model_tensors.hpp"
#include "resolve.hpp"

struct Model {
  Config config;   // resolved
  Config encoder;  // encoder_of(config); without an encoder, config
  std::vector<TensorSpec> table;
  size_t floats = 0;  // size of the weights
  size_t gradient_floats = 0;
  Buffer weights, gradients;
  ModelTensors p, g;
  RopeTables ropes;
  std::vector<double> load;  // (L,E) in training: choices of each expert since the last clear (router.hpp), in the
                             // layers of the encoder and then of the decoder
  Buffer sinusoids, slopes;  // (context,C); ALiBi's (H). Config::position decides which of ropes and these exists
  RelativeBuckets buckets, encoder_buckets;

  // Weights are zero until they are initialized or loaded. Gradients exist only for training.
  // Throws std::bad_alloc or std::overflow_error if the model is too large.
  explicit Model(const Config& config, bool training = true);

  // The same for training, with a table of this model that says what trains (keep_frozen).
  Model(const Config& config, std::vector<TensorSpec> table, bool training = true);
};

// Allocates zeros for the gradients of the trained tensors. Call it again after TensorSpec::trained changes.
void allocate_gradients(Model& model);

// Changes a table so that the frozen matrices of linear layers, of the token embedding and of the head consist of
// numbers of this type. Call it after TensorSpec::trained changes, and before there is a Model.
void keep_frozen(std::vector<TensorSpec>& table, const Config& config, NumberType numbers);

// Exchanges the model's buffer of gradients with this one.
void swap_gradients(Model& model, Buffer& gradients);

// Returns the model with its adapters (layers/linear/lora.hpp) added to its weights, in the same buffer.
Model merged(Model model);

// Returns the model without Config::fix_norm: its rows have length 1, as what they computed before, until they train.
Model without_fix_norm(Model model);

// What an encoder reads for a batch: B rows of T tokens each, the sources of the examples in the batch's rows. Padding
// is an example of its own, which no target sees.
struct EncoderInput {
  const int* tokens = nullptr;  // (B,T); null: the model has no encoder
  int T = 0;
  const int* begins = nullptr;                  // (B,T) as Batch::begins
  const int *from = nullptr, *to = nullptr;  // for each token of the batch, the first place of its source and its end
};

// One batch: B rows of T tokens each. targets (B,T) are the next tokens, or kIgnore. A row holds one example, or
// several side by side. Attention does not cross their borders, and positions restart.
struct Batch {
  const int* tokens;
  const int* targets;
  int B, T;
  const int* begins = nullptr;  // (B,T) where in its row the token's example begins; null: every row is one example
  EncoderInput encoder = {};
};

// Returns the sum of the losses of all counted targets, in nats.
double model_loss(const Model& model, const Activations& activations, const Batch& batch);

// Writes the logits (N,V) of all rows, capped if the model caps them. batch.targets may be null.
void batch_logits(float* logits, const Model& model, const Activations& activations, const Batch& batch);

// Returns the end of the stream (N,C), a part of the activations, which the head reads.
const float* model_features(const Model& model, const Activations& activations, const Batch& batch);

// Runs a block in the forward pass, as block_forward does.
using RunBlock =
    std::function<void(const BlockSaved& saved, const float* x, const Block& p, const BlockContext& context)>;

// The forward pass of a training step up to the last block, for which it calls `run` in place of block_forward(): first
// for the encoder's blocks, if there are any, then for the others. Needs the activations of training. Does not update
// running statistics.
void forward_blocks(const Model& model, const Activations& activations, const Batch& batch, const Dropout& dropout,
                    const RunBlock& run);

// Returns another dropout for the encoder, whose layers are counted like the decoder's.
Dropout of_encoder(Dropout dropout);

// Called during the backward pass. May change only complete gradients: later layers have them.
struct Observer {
  virtual ~Observer() = default;
  // Called before backward of block `layer`, with its input x (S,N,C), what it saved, and the gradient of its output dy
  // (S,N,C). An encoder's layers come first, and `batch` is then its input.
  virtual void block(int layer, const float* x, const BlockSaved& saved, const float* dy, const Batch& batch) = 0;
  // Called once for each stack, for the embedding's norm and the final norm. y (S,N,C) is the last block's output.
  virtual void outside(const StackActivations& activations, const float* y, const Batch& batch, bool encoder) = 0;
};

// Returns the place of a layer in its stack, from its number among the layers of the encoder and then the decoder.
inline int layer_in_stack(const Config& config, int layer) {
  return layer < config.encoder_layers ? layer : layer - config.encoder_layers;
}

// The factors of the losses in a step's loss. A router's losses are means over all tokens, also those without a target;
// in an encoder, over all tokens of the sources.
struct LossScale {
  float targets, tokens;  // for the loss of each target, and for the routers' losses of each token

  LossScale(float both) : targets(both), tokens(both) {}
  LossScale(int64_t target_count, int64_t token_count)
      : targets(1.f / static_cast<float>(target_count)), tokens(1.f / static_cast<float>(token_count)) {}
};

// Returns the same sum and adds its gradients: model.gradients += d(sum of all losses, times their scale). Only this
// function and forward_blocks() apply dropout and normalize BatchNorm by the batch. Only this one updates its running
// statistics.
double model_loss_and_gradients(Model& model, const Activations& activations, const Batch& batch, LossScale scale,
                                const Dropout& dropout, Observer* observer = nullptr);

// Keys and values of all layers, for B sequences of up to T tokens.
struct ModelCache {
  int B, T;
  Buffer rows;   // (L, B, T, 2·KV·D)
  int past = 0;  // number of tokens that it holds of each sequence
  // Of a decoder: what its sequences read, the number of tokens in each source, and keys and values (L, rows of the
  // memory, 2·KV·D). All sequences read the only source, or each its own.
  Memory memory = {};
  std::vector<int> sources;
  Buffer memory_rows;

  ModelCache(const Config& config, int T, int B = 1);
  size_t sequence(const Config& config) const;                   // floats per sequence and layer
  float* layer(const Config& config, int l, int first = 0) const;  // from sequence `first` on
  Cache of_layer(const Config& config, int l, int first) const;
};

// Runs the encoder on a source for all sequences in the cache, or on one for each, and makes them read it. The
// activations keep the encoder's output. They must have a row for each token of as many sources of the longest's
// length.
void read_sources(ModelCache& cache, const Model& model, const Activations& activations,
                  const std::vector<std::vector<int>>& sources);

// Reads T more tokens (B,T) for B sequences in the cache, from sequence `first` on. Writes the logits (B,V) of the next
// token. Does not change cache.past, which all sequences share. The activations need at least B·T rows. A sequence's
// logits are bit-identical for any B. Under longrope, start again when a sequence grows beyond rope_original.
void model_logits(float* logits, const Model& model, const Activations& activations, const ModelCache& cache,
                  const int* tokens, int B, int T, int first = 0);

// Reads T more tokens of the first sequence. Returns the logits (V) of the next token.
const float* model_logits(const Model& model, const Activations& activations, ModelCache& cache,
                          const int* tokens, int T);
