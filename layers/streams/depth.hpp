#pragma once
// Attention over depth: attention residuals (Kimi Team 2026, arXiv 2603.15031; the authors' pseudocode is in
// MoonshotAI/Attention-Residuals). Branches are grouped into blocks of Config::residual_block. A branch reads a mean of
// finished sums: v[0], the first input of the stack, and v[j], the sum of the outputs of block j. Its last source is x:
// the sum of its own block so far, or the last finished sum if the branch begins a block.
//
//   v (N,C) for each source, x among them → h (N,C)   each row by itself
//   forward   key = gain ⊙ v/rms(v)      z = scale·⟨w, key⟩      α = softmax of the row's z      h = Σ α·v
//   backward  dα = ⟨dh, v⟩      dz = α·(dα − Σ α·dα)      with q = scale·w ⊙ gain, r = 1/rms(v), so that z = r·⟨q, v⟩:
//             dv += α·dh + dz·r·q − dz·z·r²/C·v
//             dq = Σ dz·r·v over all rows and sources      dw += scale·gain ⊙ dq      dgain += scale·w ⊙ dq
//   saves     nothing: the sources are kept, and backward computes z again
//
// A branch then writes y = f if it begins a block, and y = skip·x + f otherwise. In blocks of one branch, all outputs
// are sources.
//
//   attnres         scale 1
//   attnres_normed  scale C^-½, no gain, and the values are the keys: h = Σ α·r·v, dα = r·⟨dh, v⟩, and
//                   dv += α·r·dh + dz·r·q − (dz·z + α·dα)·r²/C·v     (Inkling2BlockAttentionResidual of transformers)
//
// w starts at 0, and so h as the plain mean.

#include <string>

#include "stream_parameters.hpp"

// True if branch number `branch` of a stack begins a block of branches. The end of the stack counts as one more branch.
bool begins_sum(const Config& config, int branch);
// The number of finished sums that a branch reads in addition to x.
int finished_sums(const Config& config, int branch);
// The number of sources that a branch reads on average, if what the end of the stack reads is divided among branches.
// The first branch reads x alone, without arithmetic.
double sums_read(const Config& config);

// The first branch has no tensors.
DepthQuery declare_depth(Layout& layout, const Config& config, const std::string& prefix, int branch);
float* declare_sum_gradients(Layout& layout, const Config& config, int N);

// Writes h and returns it.
const float* depth_read(float* h, const DepthSums& sums, const float* x, const DepthQuery& p, const StreamRows& rows);

// d holds dy before the call and dx after it: what h passes on, plus skip·dy, or plus the gradient that later branches
// have added to the sum x. Adds to the gradients of the other sums. dh is not d.
void depth_read_backward(float* d, const DepthQuery& g, const DepthSums& sums, const float* dh, const float* x,
                         const DepthQuery& p, float skip, const StreamRows& rows);
// The same for the end of the stack, where backward begins: d holds dh before the call, and dx after it. Overwrites the
// gradients of the other sums.
void depth_end_backward(float* d, const DepthQuery& g, const DepthSums& sums, const float* x, const DepthQuery& p,
                        const StreamRows& rows);
