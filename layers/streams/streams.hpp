#pragma once
// The residual stream, of which there may be several: a branch reads a mixture of them and writes to all.
// Placement::streams says how. The branch itself (layers/residual) sees h and f, which are one stream.
//
//   single        h = x                        y = skip·x + f
//   dual          h = x[0]                     y[s] = skip·x[s] + f        backward  df = dy[0] + dy[1]
//   siamese       h = x[0] + norm(x[1])        y[0] = skip·x[0] + w·f, y[1] = skip·x[1] + f, w the row's first_write
//                 backward  df = w·dy[0] + dy[1]      dx[0] = skip·dy[0] + dh      dx[1] = skip·dy[1] + norm'(dh)
//   depth         h = a mean of x and earlier sums, see depth.hpp      y = skip·x + f, or f where a block begins
//   sphere        h = x     y on the unit sphere, from x toward f, see sphere.hpp
//
// The other rules mix:
//
//   x, y (S,N,C)   f (N,C)   one plane (N,C) for each stream
//   forward   h = Σₛ read[s]·x[s]                                    f = F(h), the branch without its skip path
//             y[t] = skip·Σₛ carry[s,t]·x[s] + write[t]·f
//   backward  df = Σₜ write[t]·dy[t]       dwrite[t] = ⟨dy[t], f⟩      dcarry[s,t] = skip·⟨dy[t], x[s]⟩
//             dh = F'(df)                  dread[s] = ⟨dh, x[s]⟩
//             dx[s] = skip·Σₜ carry[s,t]·dy[t] + read[s]·dh + what the coefficients pass on
//   saves     h (N,C), and z, from which backward recomputes the coefficients of each row
//
// Where the coefficients come from:
//
//   hyper_static  read, carry, write are parameters             (Zhu et al. 2024, arXiv 2409.19606, eq. 1 to 5)
//   hyper         each plus scale·tanh(z), z = norm(x[s])·weightᵀ        (eq. 10 to 13 and the code of appendix J)
//   mhc           z = weight·x/rms(x), over all S·C numbers of a row, and a = scale·z + bias        (Xie et al. 2025,
//                 arXiv 2512.24880, eq. 7 to 9):  read = σ(a) + 1e-6,  write = 2σ(a),  carry = Sinkhorn-Knopp(exp a)
//   independent   the same without carry:  y[t] = skip·x[t] + write[t]·f,  write = 2σ(a) + 1e-6  (HYV4HyperConnection
//                 of transformers 5.24)
//   dual          fixed: read (1,0), carry the identity, write (1,1); norm_sum acts on the first stream alone
//                 (Xie et al. 2023, arXiv 2304.14802)
//   siamese       norm_sum acts on the first stream, as with dual      (Li et al. 2026, arXiv 2602.08064)
//
//   gated         carry the identity, write = 2σ(z), and h a mean of gated, normalized streams: see gated.hpp
//
// The coefficients of a row are a column of (K,N), K = S·(S + 2): for each stream s, read[s], carry[s,0], ...,
// carry[s,S−1], write[s]. Under `independent` K = 2S, under `gated` K = S: write.

#include <string>

#include "depth.hpp"
#include "mixing.hpp"
#include "stream_parameters.hpp"

// Returns how many streams a model has: 1 unless its placement says otherwise.
int stream_count(const Config& config);
// Without tensors.
Streams streams_of(const Config& config);

// Multiply-adds per token that mix the streams of a branch; products of a weight for the coefficients; and both
// together. Attention over depth mixes sums, and also normalizes them.
double multiply_adds_of_mixing(const Config& config);
double multiply_adds_of_coefficients(const Config& config);
double multiply_adds_of_streams(const Config& config);

// `branch` counts the stack's branches from 0.
Streams declare_streams(Layout& layout, const Config& config, const std::string& name, int branch);
StreamsSaved declare_streams_saved(Layout& layout, const Config& config, const std::string& name, int N);
StreamsScratch declare_streams_scratch(Layout& layout, const Config& config, int N, bool backward);

// Returns h, which is x itself if it is the first stream. Attention over depth also reads scratch.depth.
const float* streams_read(const StreamsSaved& saved, const StreamsScratch& scratch, const float* x, const Streams& p,
                          const StreamRows& rows);
// Writes y, but its first stream to `first`, which may be y. Streams that are mixed have no norm after the sum: there
// `first` must be y. y may be x.
void streams_write(float* y, float* first, const StreamsScratch& scratch, const float* x, const float* f,
                   const Streams& p, const StreamRows& rows);

// d (S,N,C) holds dy before the call. If streams are mixed, it holds the part of dx that carry passes on after it. The
// second of two streams gets skip·dy. Returns df: d itself for a single stream, otherwise `df` (N,C).
const float* streams_write_backward(float* d, float* df, const StreamsScratch& scratch, const float* x, const float* f,
                                    const StreamsSaved& saved, const Streams& p, const StreamRows& rows);
// d holds what streams_write_backward has left there before the call, and dx after it. dh is overwritten.
void streams_read_backward(float* d, const Streams& g, const StreamsScratch& scratch, float* dh, const float* x,
                           const StreamsSaved& saved, const Streams& p, const StreamRows& rows);

// Writes the coefficients (K,N) of a branch after it has read its streams.
void stream_coefficients(float* coefficients, const StreamsSaved& saved, const Streams& p, int N);
