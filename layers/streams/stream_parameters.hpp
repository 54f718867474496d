#pragma once
// The parameters of several streams, what they save and their scratch: streams.hpp.

#include "layers/config/placements.hpp"
#include "layers/norm/norm.hpp"

inline constexpr int kMostStreams = 8;

inline StreamRule stream_rule(const Config& config) { return placement_row(config.placement).streams; }

// Parameters of a branch, or their gradients.
struct Streams {
  StreamRule rule = StreamRule::single;
  int count = 1;                                              // S
  float *read = nullptr, *carry = nullptr, *write = nullptr;  // (S) (S·S) (S): constants of hyper connections
  Norm norm;                                                  // hyper
  float* weight = nullptr;  // hyper (S + 2, C): read, carry to each stream, write; mhc (K, S·C): read, write, carry
  float* bias = nullptr;    // mhc (K), in the order of its weight
  float* scale = nullptr;   // hyper (2): of read and carry, of write; mhc (3): read, write, carry
  float eps = 0;            // mhc

  // Several streams that are mixed. Two of ResiDual are not.
  bool mixes() const { return rule != StreamRule::single && rule != StreamRule::dual; }
  int coefficients() const { return count * (count + 2); }  // K
};

struct StreamsSaved {
  float* h = nullptr;     // (N,C)
  float* z = nullptr;     // (K,N) hyper, mhc
  float* rstd = nullptr;  // (N) mhc: 1/rms(x)
  NormSaved norm;         // hyper
};

// Shared by all branches. Between the two functions of a pass it keeps the coefficients and their gradients.
struct StreamsScratch {
  float* coefficients = nullptr;  // (K,N)
  float* d = nullptr;             // (K,N) backward only
  float* wide = nullptr;          // (S,N,C) hyper
};
