#pragma once
// The ends of several residual streams: from the embedding into each of them, and from all of them to the classifier.
//
//   begin   x[s] = x for every s                          backward  dx = Σₛ dx[s]
//   end     h = norm(Σₛ x[s]), of ResiDual x[0] + norm(x[1])        dx[s] = norm'(dh), of ResiDual (dh, norm'(dh))

#include "streams.hpp"

// Copies x (N,C) to each of the streams.
void streams_begin(float* streams, const float* x, int S, int N, int C);
// d (S,N,C) holds the gradients of all streams; its first plane receives x's gradient.
void streams_begin_backward(float* d, int S, int N, int C);

// What the classifier reads: norm(Σₛ x[s]), or of ResiDual x[0] + norm(x[1]).
struct StreamsEnd {
  float* sum = nullptr;  // (N,C) if several streams are mixed
  float* h = nullptr;    // (N,C) unless it is x
  NormSaved norm;
  StreamRule rule = StreamRule::single;
  int count = 1;
};
StreamsEnd declare_streams_end(Layout& layout, const Config& config, int N);
const float* streams_end(const StreamsEnd& end, const float* x, const Norm& norm, int N, int C, bool training);
// The input of the norm (N,C).
const float* before_final_norm(const StreamsEnd& end, const float* x, int N, int C);
// The first plane of d holds dh; d gets the gradients of all streams.
void streams_end_backward(float* d, const Norm& g, const float* x, const StreamsEnd& end, const Norm& norm, int N,
                          int C);
