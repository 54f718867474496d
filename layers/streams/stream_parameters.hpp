#pragma once
// The parameters, saved activations and scratch of several streams (streams.hpp).

#include "layers/config/placements.hpp"
#include "layers/norm/norm.hpp"

inline StreamRule stream_rule(const Config& config) { return config.placement_row->streams; }

// Parameters of a branch, or their gradients.
struct Streams {
  StreamRule rule = StreamRule::single;
  int count = 1;                                              // S
  float skip = 1;                                             // the factor on the skip path
  float *read = nullptr, *carry = nullptr, *write = nullptr;  // (S) (S·S) (S): constants of hyper connections
  Norm norm;               // hyper; siamese: of the second stream
  float first_write = 1;   // siamese: the factor on f in the first stream
  float* weight = nullptr;  // hyper (S + 2, C): read, carry to each stream, write; mhc (K, S·C): read, write, carry
  float* bias = nullptr;    // mhc (K), in the order of its weight
  float* scale = nullptr;   // hyper (2): for read and carry, for write; mhc (3): for read, write, carry
  float eps = 0;            // mhc

  // True if coefficients mix the streams. Two streams, of ResiDual or SiameseNorm, are not mixed.
  bool mixes() const { return ::mixes(rule); }
  int coefficients() const { return count * (count + 2); }  // K
};

// The rows of one stream.
struct StreamRows {
  int N, C;
  bool training = true;  // see norm_forward
};

struct StreamsSaved {
  float* h = nullptr;     // (N,C) if it is not a stream
  float* z = nullptr;     // (K,N) hyper, mhc
  float* rstd = nullptr;  // (N) mhc: 1/rms(x)
  NormSaved norm;         // hyper, siamese

  // What streams_read has returned for x.
  const float* h_or(const float* x) const { return h ? h : x; }
};

// Scratch that all branches share. It keeps the coefficients and their gradients between the two functions of a pass.
struct StreamsScratch {
  float* coefficients = nullptr;  // (K,N)
  float* d = nullptr;             // (K,N) backward only
  float* wide = nullptr;          // (S,N,C) hyper
};
