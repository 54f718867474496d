#pragma once
// A sublayer is what a residual branch computes: u (N,C) → f (N,C). Its parameters are a Branch and its tensors.
//
//   declare_sublayer(p, ...)               takes its tensors, norm_inner before its last matrix
//   declare_sublayer_saved(saved, ...)     takes what backward needs, and f where the branch keeps it
//   sublayer_inner(saved, u, p, c)         u → m, the input of its last matrix
//   sublayer_out(f, saved, m, p, c)        m → f
//   sublayer_backward(du, g, df, u, saved, p, c)
//
// block.cpp calls them by the type of p: Attention (layers/attention) or FeedForward (layers/feed_forward).

#include "dropout.hpp"
#include "layers/embedding/position.hpp"
#include "layers/linear/lora.hpp"
#include "mix.hpp"
#include "residual.hpp"

// Keys and values of the positions before the first of these T, when text is generated: `past` rows k|v of each
// sequence, to which the T new ones are added.
struct Cache {
  float* rows = nullptr;  // (B, length, 2·KV·D)
  int past = 0, length = 0;
};
inline size_t cache_width(const Config& config) { return 2 * size_t(config.kv_heads) * config.head_dim; }

// Shared by all blocks.
struct BlockScratch {
  float *f, *normed;      // (N,C) each
  float *inner, *joined;  // backward only: gradients of what norm_inner reads, and of joined rows q|k|v or gate|up
  float* du;              // (N,C) backward of parallel blocks only
  float* bypass;          // (N,C) backward of a bypass only: its gradient
  float *rows, *drows, *dscores;  // of experts: rows of one (N,C), and in backward their gradient; (N,E)
  StreamsScratch streams;
  LoraScratch lora;
};

// What crosses layers, with its gradient: the input of the first block, and the values that its attention reads. Later
// blocks add to the gradients, and the last one writes them first. Absent: null.
struct Carried {
  const float* x = nullptr;   // (N,C) for the stream mix
  float* dx = nullptr;
  float* values = nullptr;    // (N,KV·D) for the value residual
  float* dvalues = nullptr;
};
Carried declare_carried(Layout& layout, const Config& config, const float* x, int N, bool backward);

// Everything a block needs besides its parameters.
struct BlockContext {
  const Config& config;
  const RopeTable& rope;
  const BlockScratch& scratch;
  int B, T;
  Dropout dropout;
  int layer = 0;
  Cache cache;
  const float* slopes = nullptr;  // (H) of ALiBi, where that is how positions are told
  Carried carried = {};
  bool training = false;          // see norm_forward
  float scale = 1;                // the gradient of the step's loss with respect to the sum of the losses of all tokens
  double* load = nullptr;         // (L,E) training: counts the choices of each expert
  bool again = false;             // the pass before backward, for what was not kept: see Config::recompute

  bool last() const { return layer + 1 == config.n_layer; }

  // True if this pass runs a stage that is run again from the level `stage` on.
  bool runs(Recompute stage) const { return !again || config.recompute >= stage; }
};

// A linear layer of a sublayer, with its adapters. `site` numbers the dropout of what they read.
inline LoraDropout lora_dropout(const BlockContext& c, DropoutSite site) {
  LoraDropout d{c.dropout, c.layer, site, c.B, c.T};
  d.dropout.p = c.training ? c.config.lora_dropout : 0;
  return d;
}
inline void adapted_forward(float* y, const float* x, const Linear& p, int I, int O, const BlockContext& c,
                            DropoutSite site) {
  linear_forward(y, x, p, c.B * c.T, I, O);
  lora_forward(y, x, p.lora, c.B * c.T, I, O, c.scratch.lora, lora_dropout(c, site));
}
inline void adapted_backward(float* dx, const Linear& g, const float* dy, const float* x, const Linear& p, int I, int O,
                             const BlockContext& c, DropoutSite site) {
  linear_backward(dx, g, dy, x, p, c.B * c.T, I, O);
  lora_backward(dx, g.lora, dy, x, p.lora, c.B * c.T, I, O, c.scratch.lora, lora_dropout(c, site));
}
