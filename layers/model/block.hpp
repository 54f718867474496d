#pragma once
// A transformer block: a schedule over residual branches (layers/residual), attention and feed-forward. In a decoder
// that reads an encoder, cross attention is a third branch between the two, and blocks are sequential (Vaswani et al.
// 2017, arXiv 1706.03762).
//
//   Before all that, x may be mixed with the first block's input (Config::stream_mix).
//   sequential        x (N,C) → attention branch → middle (N,C) → feed-forward branch → y (N,C)            N = B·T
//   parallel          both branches read x:   y = skip·x + attention(norm_in(x)) + ffn(norm_in'(x))
//                     each through its own norm   (GPT-NeoX, Black et al. 2022, arXiv 2204.06745; Falcon-40B)
//   parallel-shared   the same through one norm   (GPT-J; PaLM, Chowdhery et al. 2022, arXiv 2204.02311, §2; Falcon-7B)
// With several streams, x, middle and y are (S,N,C). Parallel blocks have one stream.
//
// (GPT-NeoX's docstring has x = norm(x) first: its code adds to the x before the norm.)

#include "layers/attention/cross_attention.hpp"
#include "layers/attention/self_attention.hpp"
#include "layers/feed_forward/feed_forward.hpp"

// Parameters, or their gradients.
struct Block {
  Mix mix;  // mixes the stream with the first block's input, before the branches
  Attention attention;
  CrossAttention cross;  // in a decoder
  FeedForward ffn;  // without norm_in if it shares attention's
};
Block declare_block(Layout& layout, const Config& config, int layer);

// Saved for backward. attention.y and cross.y are the stream between the branches; ffn.y is the next block's x. Blocks
// share the buffers of what they run again (Config::recompute). Without training they share all buffers. Attention over
// depth keeps the sums that later branches read.
struct BlockSaved {
  float* mixed = nullptr;  // (N,C) what the branches read, if there is a mix
  AttentionSaved attention;
  CrossAttentionSaved cross{};
  FeedForwardSaved ffn;

  const float* before_ffn() const { return cross.y ? cross.y : attention.y; }
};
BlockSaved declare_block_saved(Layout& layout, Config config, int layer, int B, int T, bool training);
BlockScratch declare_block_scratch(Layout& layout, const Config& config, int B, int T, bool backward);

void block_forward(const BlockSaved& saved, const float* x, const Block& p, const BlockContext& context);

// Before backward: computes again what the blocks share (Config::recompute), with the same bits.
void block_recompute(const BlockSaved& saved, const float* x, const Block& p, const BlockContext& context);

// d has the size of x. It holds dy before the call and dx after it.
void block_backward(float* d, const Block& g, const float* x, const BlockSaved& saved, const Block& p,
                    const BlockContext& context);
