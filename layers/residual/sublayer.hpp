#pragma once
// A sublayer is what a residual branch computes: u (N,C) → f (N,C). Its parameters are a Branch and its tensors.
//
//   declare_sublayer(p, ...)               takes its tensors, norm_inner before its last matrix
//   declare_sublayer_saved(saved, ...)     takes what backward needs, and f where the branch keeps it
//   sublayer_forward(f, saved, u, p, c)
//   sublayer_backward(du, g, df, u, saved, p, c)
//
// block.cpp calls them by the type of p: Attention (layers/attention) or FeedForward (layers/feed_forward).

#include "dropout.hpp"
#include "layers/embedding/position.hpp"
#include "layers/linear/linear.hpp"
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
};

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
  bool training = false;          // see norm_forward
};
