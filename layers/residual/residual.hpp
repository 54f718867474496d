#pragma once
// A residual branch with its normalizations: the one place where a placement acts.
//
//   y = norm_sum( skip·x + norm_out( W_out·norm_inner( F( in_scale·norm_in(x) ) ) ) )   an absent norm is the identity
//
//   u = branch_enter(x)           u = in_scale·norm_in(x)
//   h = F(u)                      attention or feed-forward up to its last matrix; the sublayer does it
//   m = branch_inner(h)           m = norm_inner(h)
//   f = W_out m                   the sublayer again
//   y = branch_leave(x, f)        s = skip·x + norm_out(f),  y = norm_sum(s);  or λ ⊙ f for norm_out(f)
//
//   df = branch_leave_backward(dy)        ds = norm_sum'(dy),  df = norm_out'(ds) or λ ⊙ ds; ds overwrites dy
//   dm = W_outᵀ df
//   dh = branch_inner_backward(dm)        dh = norm_inner'(dm)
//   du = F'(dh)
//   dx = branch_enter_backward(du, ds)    dx = skip·ds + norm_in'(in_scale·du); dx overwrites ds
//
//   saves     what the norms need: f if there is a norm_out or λ, s if there is a norm_sum; the caller still holds x
//             and h
//
// With several streams, x and y are (S,N,C), and layers/streams mixes them:
//
//   u = in_scale·norm_in(read x)          y = skip·carry x + write·norm_out(f)
//   ResiDual: u = in_scale·norm_in(x[0])  y[0] = norm_sum(skip·x[0] + f)    y[1] = skip·x[1] + f
//
// With a bypass, the feed-forward branch's sum also has the block's input b (B2T):
//
//   s = skip·x + norm_out(f) + b          db += ds

#include <string>

#include "gain.hpp"
#include "layers/config/placements.hpp"
#include "layers/norm/norm.hpp"
#include "layers/streams/streams.hpp"

// Parameters, or their gradients.
struct Branch {
  Norm norm_in, norm_inner, norm_out, norm_sum;
  Gain gain;  // λ
  Streams streams;
  float skip = 1, in_scale = 1;
  bool bypass = false;
};

struct BranchSaved {
  float* u = nullptr;  // (N,C) in_scale·norm_in(x), if there is a norm_in
  float* m = nullptr;  // (N,width) norm_inner(h), if there is one
  float* s = nullptr;  // (N,C) norm_sum's input, if there is one
  float* f = nullptr;  // (N,C) if norm_out or λ needs it
  float* y = nullptr;  // (S,N,C)
  NormSaved in, inner, out, sum;
  StreamsSaved streams;
};

// Take the tensors that the placement needs in block `layer`. The streams' mixing and norm_in come first in the table;
// norm_inner, as wide as W_out's input, comes before W_out; the other norms come after all tensors of the branch.
// `index` counts the model's branches from 0.
void declare_branch_enter(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer,
                          int index);
void declare_branch_inner(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer,
                          int width);
void declare_branch_leave(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer);
// Without `enters`, the branch reads what another branch has entered. norm_inner has inner_rows rows, or N if that is
// 0.
BranchSaved declare_branch_saved(Layout& layout, const Config& config, const std::string& name, int layer, int N,
                                 int inner_width, bool enters = true, int inner_rows = 0);

// Declares the λ that both branches of block `layer` share, if the placement has one.
void declare_shared_gain(Branch& first, Branch& second, Layout& layout, const Config& config, int layer);

// True if backward needs the branch's output f, because the branch has a norm_out, a λ or mixed streams.
bool branch_keeps_output(const Config& config, int layer, const std::string& name);

// True if the model's feed-forward branches have a bypass.
bool has_bypass(const Config& config);

// True if backward needs more than y of what follows W_out.
bool branch_saves_end(const Config& config, int layer, const std::string& name);

// `training`: see norm_forward.
const float* branch_enter(const BranchSaved& saved, const StreamsScratch& scratch, const float* x, const Branch& p,
                          int N, int C, bool training);
// Returns the u that branch_enter has written, or x.
const float* branch_entered(const BranchSaved& saved, const float* x);
const float* branch_inner(const BranchSaved& saved, const float* h, const Branch& p, int N, int width, bool training);

// y may be x. normed (N,C) is scratch for norm_out(f). b (N,C) is the block's input, for a bypass.
void branch_leave(float* y, const BranchSaved& saved, const StreamsScratch& scratch, float* normed, const float* x,
                  const float* f, const Branch& p, int N, int C, bool training, const float* b = nullptr);

// d holds dy before the call and ds after it. Returns df: `df` if there is a norm_out, a λ or a second stream, else d
// itself. A bypass writes its gradient to db (N,C).
const float* branch_leave_backward(float* d, float* df, const Branch& g, const StreamsScratch& scratch, const float* x,
                                   const float* f, const BranchSaved& saved, const Branch& p, int N, int C,
                                   float* db = nullptr);

// d holds dm before the call and dh after it.
void branch_inner_backward(float* d, const Branch& g, const float* h, const BranchSaved& saved, const Branch& p, int N,
                           int width);

// d holds ds before the call and dx after it. Overwrites du.
void branch_enter_backward(float* d, const Branch& g, const StreamsScratch& scratch, float* du, const float* x,
                           const BranchSaved& saved, const Branch& p, int N, int C);
