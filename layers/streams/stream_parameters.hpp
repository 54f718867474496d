#pragma once
// The parameters, saved activations and scratch of several streams (streams.hpp).

#include <vector>

#include "layers/config/placements.hpp"
#include "layers/norm/norm.hpp"

inline StreamRule stream_rule(const Config& config) { return config.placement_row->streams; }

// Attention over depth (depth.hpp): what weighs the sums that a branch, or the end of a stack, reads.
struct DepthQuery {
  float* query = nullptr;  // w (1,C); null: reads x alone
  Norm norm;               // of the keys
  bool normed = false;     // the values are the keys
  float scale = 1;         // on the scores
  int sums = 0;            // finished sums that it reads in addition to x
  bool begins = false;     // x is a finished sum, too: number `sums`
};

// Parameters of a branch, or their gradients.
struct Streams {
  StreamRule rule = StreamRule::single;
  int count = 1;                                              // S
  float skip = 1;                                             // the factor on the skip path
  float *read = nullptr, *carry = nullptr, *write = nullptr;  // (S) (S·S) (S): constants of hyper connections
  Norm norm;               // hyper; siamese: of the second stream
  float first_write = 1;   // siamese: the factor on f in the first stream
  int kinds = 3;            // of coefficients: 1 read, 2 read and write, 3 also carry; gated: 1 write, 0 none
  float* weight = nullptr;  // hyper (S + 2, C): read, carry to each stream, write; others (K, S·C): read, write, carry
  float* bias = nullptr;    // not hyper: (K), in the order of the weight
  float* scale = nullptr;   // hyper (2): for read and carry, for write; others (kinds)
  float eps = 0;            // not hyper
  std::vector<Norm> norms;  // (S) gated: of each stream
  float* up = nullptr;      // (S·C, rank) gated; its weight is (rows(), S·C)
  int rank = 0;             // gated
  float* rate = nullptr;    // (C) sphere: a
  float rate_factor = 1;    // sphere: √C·α₀, α₀ divided by the depth if the parametrization says so
  DepthQuery depth;

  // True if coefficients mix several streams. Two streams, of ResiDual or SiameseNorm, are not mixed.
  bool mixes() const { return ::mixes(rule); }
  int per_stream() const { return kinds == 3 ? count + 2 : kinds; }  // coefficients of a stream
  int coefficients() const { return count * per_stream(); }          // K
  int rows() const { return rank + coefficients(); }                 // of z
};

// The rows of one stream.
struct StreamRows {
  int N, C;
  bool training = true;  // see norm_forward
};

struct StreamsSaved {
  float* h = nullptr;     // (N,C) if it is not a stream
  float* z = nullptr;     // (K,N) of coefficients that tokens decide; gated: (rank + K, N)
  float* rstd = nullptr;  // (N) mhc, independent: 1/rms(x)
  NormSaved norm;         // hyper, siamese
  std::vector<NormSaved> norms;  // (S) gated

  // What streams_read has returned for x.
  const float* h_or(const float* x) const { return h ? h : x; }
};

// The finished sums of a stack whose branches attend over depth: its first input, and the output of each block of
// branches that a later branch reads.
struct DepthSums {
  std::vector<const float*> v;  // (N,C) each
  float* d = nullptr;           // (their number, N, C) their gradients, backward only
};

// Scratch that all branches share. It keeps the coefficients and their gradients between the two functions of a pass.
struct StreamsScratch {
  float* coefficients = nullptr;  // (K,N)
  float* d = nullptr;             // (K,N) backward only
  float* wide = nullptr;          // (S,N,C) hyper, gated: the normalized streams
  float *gates = nullptr, *hidden = nullptr;  // gated: (S,N,C), (rank,N)
  float *dwide = nullptr, *dz = nullptr;      // gated, backward only: (S,N,C), (rank + K, N)
  float* rates = nullptr;         // (row_blocks(N),C) sphere, backward only: the gradient of α
  DepthSums depth;
};
