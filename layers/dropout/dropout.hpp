#pragma once
//   x (N,C)
//   forward   y  = x·m/(1 − p)       m is 0 with probability p, else 1 (Srivastava et al. 2014)
//   backward  dx = dy·m/(1 − p)      the same multiplication: one function serves both
//   saves     nothing: m depends only on the element's position
//
// m is a function of (seed, step, row of the effective batch, layer, site, position in the row). So masks are the same
// for any number of threads and any division into micro-batches.

#include <cstdint>

enum class DropoutSite {
  embedding, attention, attention_out, ffn_out, lora_qkv, lora_o, lora_up, lora_down,
  cross, cross_out, lora_cross_q, lora_cross_kv, lora_cross_o
};

struct Dropout {
  float p = 0;  // 0 is off
  uint64_t seed = 0, step = 0;
  int first_row = 0;  // this micro-batch's first row in the effective batch

  // Returns the key of one line of elements. `index` counts lines within (row b, layer, site).
  uint64_t key(int b, int layer, DropoutSite site, uint64_t index) const;

  // Returns the key of the line with one query's weights, in attention or cross attention.
  uint64_t attention_key(int b, int layer, int h, int query, DropoutSite site = DropoutSite::attention) const;
};

// x[0..n) are the elements begin, begin + 1, ... of the line with this key.
void dropout_line(float* x, uint64_t key, float p, int begin, int n);

// Drops elements of x (B,T,C) in place. Does nothing if p is 0.
void dropout_apply(float* x, const Dropout& dropout, int layer, DropoutSite site, int B, int T, int C);
