#pragma once
// The ends of several residual streams: from the embedding into each of them, and from all of them to the classifier.
//
//   begin    x[s] = x for every s                          backward  dx = Σₛ dx[s]
//   end      h = norm(sum), sum = Σₛ x[s]                  backward  dx[s] = dsum = norm'(dh)
//
//   mean     sum = 1/S·Σₛ x[s]                             backward  dx[s] = dsum/S
//   read     sum = Σₛ read[s]·x[s], as in a branch         backward  dx[s] = read[s]·dsum + what read passes on
//            (mhc.hpp, DeepseekV4HyperHead of transformers; gated.hpp)
//   dual     h = x[0] + norm(x[1])                         backward  dx = (dh, norm'(dh))
//   siamese  x[0] = first_norm(x), x[1] = x                backward  dx = first_norm'(dx[0]) + dx[1]
//            h = norm(sum), sum = x[0] + second_norm(x[1]) backward  dx = (dsum, second_norm'(dsum))
//   depth    h = norm(sum), sum a mean of x and earlier sums (depth.hpp)

#include "streams.hpp"

// The norms at the ends of a stack: parameters, or their gradients.
struct EndNorms {
  Norm first_norm, second_norm;  // siamese
  Norm final_norm;               // if the placement has one
  DepthQuery depth;              // attention over depth
  Streams read;                  // of streams that are mixed; it has tensors for StreamEnd::read
};
// Multiply-adds per token of the learned read.
double multiply_adds_of_end(const Config& config);

// first_norm comes before the blocks, everything else after them.
void declare_first_norm(EndNorms& p, Layout& layout, const Config& config);
void declare_last_norms(EndNorms& p, Layout& layout, const Config& config);

// Copies x (N,C) to each of the streams.
void streams_begin(float* streams, const NormSaved& saved, const float* x, const EndNorms& p, int S,
                   const StreamRows& rows);
// d (S,N,C) holds the gradients of all streams; its first plane receives x's gradient.
void streams_begin_backward(float* d, const EndNorms& g, const NormSaved& saved, const float* x,
                            const EndNorms& p, int S, const StreamRows& rows);

// What the classifier reads.
struct StreamsEnd {
  float* sum = nullptr;  // (N,C) of several streams, but not of ResiDual; of attention over depth
  float* h = nullptr;    // (N,C) unless it is x
  NormSaved norm, second_norm;
  StreamsScratch scratch;         // of the blocks
  StreamsSaved read;              // StreamEnd::read
  float* coefficients = nullptr;  // (S,N) StreamEnd::read of mhc, independent; backward overwrites them with gradients
  StreamEnd form = StreamEnd::sum;
  StreamRule rule = StreamRule::single;
  int count = 1;

  float factor() const { return form == StreamEnd::mean ? 1.f / static_cast<float>(count) : 1; }
};
StreamsEnd declare_streams_end(Layout& layout, const Config& config, int N);
const float* streams_end(const StreamsEnd& end, const float* x, const EndNorms& p, const StreamRows& rows);
// The input of the norm (N,C).
const float* before_final_norm(const StreamsEnd& end, const float* x, int N, int C);
// The first plane of d holds dh; d gets the gradients of all streams.
void streams_end_backward(float* d, const EndNorms& g, const float* x, const StreamsEnd& end, const EndNorms& p,
                          const StreamRows& rows);
