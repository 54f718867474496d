#pragma once
// The sizes of an attention layer, and how it forms scores (formulas in attention.hpp).

#include <cmath>

#include "layers/embedding/position.hpp"

struct AttentionShape {
  int B, T;  // sequences, and queries in each
  int n_head, kv_heads, head_dim;
  float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  float cap = 0;
  int window = 0;
  const float* slopes = nullptr;  // (H)
  RelativeBias relative = {};
  const int* begins = nullptr;    // (B,T) see Batch (layers/model/model.hpp); null if there are past keys
  const float* sinks = nullptr;   // (H)
  bool causal = true;
  // Cross attention: the query sees the keys from[i], ..., to[i] − 1 of its sequence, at least one. Neither decreases
  // within a sequence. Window, slopes, relative, begins and causal then have no effect.
  int sources = 0;                               // keys of each sequence; 0: as many as queries, self-attention
  const int *from = nullptr, *to = nullptr;  // (B,T)

  bool words = false;  // products read words (layers/kernels/gemm.hpp) of q, k, v, P, dout and dS

  bool crosses() const { return to != nullptr; }
  int keys() const { return crosses() ? sources : T; }

  int width() const { return n_head * head_dim; }                      // width of a row of out
  int qkv_width() const { return (n_head + 2 * kv_heads) * head_dim; }  // width of a row q|k|v
};
