#pragma once
// The arithmetic that all rules share, with the coefficients (K,N) as in streams.hpp.
//
//   h = Σₛ read[s]·x[s]      y[t] = skip·Σₛ carry[s,t]·x[s] + write[t]·f      without carry: skip·x[t] + write[t]·f

#include "stream_parameters.hpp"

void read_streams(float* h, const float* coefficients, const float* x, const Streams& p, int N, int C);
// Adds read[s]·dh to d (S,N,C). Writes the gradients of read to scratch.d.
void read_streams_backward(float* d, const StreamsScratch& scratch, const float* dh, const float* x, const Streams& p,
                           int N, int C);
// The same at the end of a stack: the first plane of d holds dh before the call. Overwrites all of d.
void read_end_backward(float* d, const StreamsScratch& scratch, const float* x, const Streams& p, int N, int C);

// y may be x.
void write_streams(float* y, const float* coefficients, const float* x, const float* f, const Streams& p, int N,
                   int C);
// d holds dy before the call and skip·Σₜ carry[s,t]·dy[t] after it. Writes df, and the gradients of carry and write to
// scratch.d.
void write_streams_backward(float* d, float* df, const StreamsScratch& scratch, const float* x, const float* f,
                            const Streams& p, int N, int C);
