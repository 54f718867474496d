#pragma once
// A sublayer is what a residual branch computes: u (N,C) → f (N,C). Its parameters are a Branch and its tensors.
//
//   declare_sublayer(p, ...)               takes its tensors, norm_inner before its last matrix
//   declare_sublayer_saved(saved, ...)     takes what backward needs, and f if the branch keeps it
//   sublayer_core(saved, u, p, c)          u → what --recompute selective keeps: q, k, v and attention's output
//   sublayer_inner(saved, u, p, c)         the rest, up to m, the input of its last matrix
//   sublayer_out(f, saved, m, p, c)        m → f
//   sublayer_backward(du, g, df, u, saved, p, c)
//
// block.cpp calls them by the type of p: Attention or CrossAttention (layers/attention), or FeedForward
// (layers/feed_forward).

#include "layers/dropout/dropout.hpp"
#include "layers/embedding/position.hpp"
#include "layers/linear/lora.hpp"
#include "layers/residual/mix.hpp"
#include "layers/residual/residual.hpp"

// Keys and values of earlier positions, for generation: `past` rows k|v of each sequence. The T new rows are added.
struct Cache {
  float* rows = nullptr;  // (B, length, 2·KV·D)
  int past = 0, length = 0;
  float* memory = nullptr;  // (rows of the memory, 2·KV·D) for cross attention, written when nothing is past
};
inline size_t cache_width(const Config& config) { return 2 * size_t(config.kv_heads) * config.head_dim; }

// Scratch that all blocks share.
struct BlockScratch {
  float *f, *normed;      // (N,C) each
  float *inner, *joined;  // backward only: gradients of what norm_inner reads, and of joined rows q|k|v or gate|up
  float* du;              // (N,C) only for backward of parallel blocks
  float* bypass;          // (N,C) only for backward of a bypass: its gradient
  float* memory;          // (N,C) only for backward of cross attention: a layer's gradient of the memory
  float *rows, *drows, *dscores;  // experts: one's rows (N,C); in backward, their gradient and (N,E)
  StreamsScratch streams;
  LoraScratch lora;
};

// Tensors that cross layers, with their gradients: the first block's input, and the values that its attention reads.
// Backward starts at the last block, which overwrites these gradients; every earlier block adds. Null if absent.
struct Carried {
  const float* x = nullptr;   // (N,C) for the stream mix
  float* dx = nullptr;
  float* values = nullptr;    // (N,KV·D) for the value residual
  float* dvalues = nullptr;
};
Carried declare_carried(Layout& layout, const Config& config, const float* x, int N, bool backward);

// The encoder's output, which cross attention reads. In backward the last block overwrites its gradient, and every
// earlier one adds. In generation all sequences may read one source.
struct Memory {
  const float* x = nullptr;   // (rows,C)
  float* dx = nullptr;
  int rows = 0, T = 0;                          // of all sources, and of each
  const int *from = nullptr, *to = nullptr;  // (B,T) see EncoderInput (layers/model/model.hpp)
};

// Everything that a block needs in addition to its parameters.
struct BlockContext {
  const Config& config;
  const RopeTables& ropes;
  const BlockScratch& scratch;
  int B, T;
  Dropout dropout;
  int layer = 0;
  Cache cache = {};
  PositionBiases biases = {};
  float* drelative = nullptr;     // (buckets,H) in backward, if relative positions learn
  Carried carried = {};
  Memory memory = {};             // in a decoder
  bool training = false;          // see norm_forward
  float router_scale = 1;         // see LossScale (layers/model/model.hpp)
  const int* begins = nullptr;    // (B,T) see Batch; null with a cache
  double* load = nullptr;         // (L,E) the forward pass of training counts each expert's choices

  bool last() const { return layer + 1 == config.n_layer; }
  const RopeTable* rope() const { return ropes.of(config, layer); }
  Positions positions() const { return {B, T, cache.past, begins}; }
  StreamRows rows() const { return {B * T, config.channels, training}; }
};

// A sublayer's linear layer with its adapters, for rows of c.B sequences. `site` numbers the dropout of the adapters'
// input.
void adapted_forward(float* y, const float* x, const Linear& p, const LinearShape& shape, const BlockContext& c,
                     DropoutSite site);
void adapted_backward(float* dx, const Linear& g, const float* dy, const float* x, const Linear& p,
                      const LinearShape& shape, const BlockContext& c, DropoutSite site);
