#pragma once
// A transformer block: two residual branches.
//
//   attention      u → q|k|v → QK-norm → RoPE → causal attention → norm_inner → o                  N = B·T
//   feed-forward   u → up (or gate|up) → activation → norm_inner → down
//
//   sequential        x (N,C) → attention branch → middle (N,C) → feed-forward branch → y (N,C)
//   parallel          both branches read x:   y = skip·x + attention(norm_in(x)) + ffn(norm_in'(x))
//                     each through a norm of its own   (GPT-NeoX, Black et al. 2022, arXiv 2204.06745; Falcon-40B)
//   parallel-shared   the same through one norm   (GPT-J; PaLM, Chowdhery et al. 2022, arXiv 2204.02311, §2; Falcon-7B)
// (GPT-NeoX's docstring has x = norm(x) first: its code adds to the x before the norm.)

#include "layers/attention/attention.hpp"
#include "layers/linear/linear.hpp"
#include "layers/embedding/position.hpp"
#include "layers/norm/qk_norm.hpp"
#include "layers/residual/residual.hpp"

// Parameters, or their gradients.
struct Block {
  Branch attention;
  Linear qkv, o;
  QkNorm qk_norm;
  Branch ffn;     // without norm_in where it is shared with attention's
  Linear up, down;  // up: gate|up where the activation is gated
};
Block declare_block(Layout& layout, const Config& config, int layer);

// What backward needs, and y, which is the next block's x.
struct BlockSaved {
  BranchSaved attention;
  float *qkv, *lse, *mixed;    // (N,q|k|v) (B,H,T) (N,H·D)
  QkNormSaved qk_norm;
  float* attention_f = nullptr;  // (N,C) where norm_out or λ needs it
  float* middle;               // (N,C) between the branches
  BranchSaved ffn;
  float *up, *active;          // (N,F) or (N,2F), (N,F): before and after the activation
  float* ffn_f = nullptr;
  float* y;                    // (N,C)
};
BlockSaved declare_block_saved(Layout& layout, const Config& config, int layer, int B, int T);

// Shared by all blocks.
struct BlockScratch {
  float *f, *normed;       // (N,C) each
  float *wide, *wider;     // backward only: (N, max(F, H·D)), (N, max(F or 2F, q|k|v))
  float* du;               // (N,C) backward of parallel blocks only
};
BlockScratch declare_block_scratch(Layout& layout, const Config& config, int B, int T, bool backward);

// Keys and values of the positions before the first of these T, when text is generated: `past` rows k|v, to
// which the T new ones are added. Of one sequence: B is 1.
struct Cache {
  float* rows = nullptr;  // (context, 2·KV·D)
  int past = 0;
};
inline size_t cache_width(const Config& config) { return 2 * size_t(config.kv_heads) * config.head_dim; }

// What a block is told besides its parameters.
struct BlockContext {
  const Config& config;
  const RopeTable& rope;
  int B, T;
  Dropout dropout;
  int layer = 0;
  Cache cache;
  const float* slopes = nullptr;  // (H) of ALiBi, where that is how positions are told
  bool training = false;          // see norm_forward
};

// What attention does in a layer.
AttentionShape attention_shape(const Config& config, int layer, const float* slopes, int B, int T);

void block_forward(const BlockSaved& saved, const BlockScratch& scratch, const float* x, const Block& p,
                   const BlockContext& context);

// d (N,C) holds dy and then dx.
void block_backward(float* d, const BlockScratch& scratch, const Block& g, const float* x, const BlockSaved& saved,
                    const Block& p, const BlockContext& context);
