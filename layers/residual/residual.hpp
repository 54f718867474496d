#pragma once
// A residual branch with its normalizations: the one place where a placement acts.
//
//   y = norm_sum( skip·x + out_scale·norm_out( W_out·norm_inner( F( in_scale·norm_in(x) ) ) ) )
//
//                                 an absent norm is the identity
//   h = streams_read(x)           h = x; layers/streams says more
//   u = branch_in(h)              u = in_scale·norm_in(h)
//   m = branch_inner(F(u))        m = norm_inner(F(u)); F is attention or feed-forward layer up to its last matrix
//   f = W_out m                   the sublayer does F and W_out
//   o = branch_out(f)             o = out_scale·norm_out(f) or out_scale·λ ⊙ f
//   s = streams_write(x, o)       s = skip·x + o
//   y = branch_sum(s)             y = norm_sum(s)
//
//   ds = branch_sum_backward(dy)          ds = norm_sum'(dy); it overwrites dy
//   do = streams_write_backward(ds)       do = ds
//   df = branch_out_backward(do)          df = norm_out'(out_scale·do) or λ ⊙ out_scale·do
//   dm = W_outᵀ df
//   du = F'(branch_inner_backward(dm))    norm_inner'(dm)
//   dh = branch_in_backward(du)           dh = norm_in'(in_scale·du)
//   dx = streams_read_backward(ds, dh)    dx = skip·ds + dh; it overwrites ds
//
//   saves     what the norms need: f if norm_out or λ is present, s if norm_sum or GPAS is; the caller still holds x
//             and F(u)
//
// With a bypass, the feed-forward branch's sum also has the block's input b (B2T):
//
//   s = skip·x + out_scale·norm_out(f) + b          db = ds
//
// With a learned gain ω on the skip path (Admin, Liu et al. 2020, arXiv 2004.08249), which needs norm_sum:
//
//   s = skip·ω ⊙ x + o                              dω += skip·Σₙ ds ⊙ x      dx = skip·ω ⊙ ds + dh
//
// With GPAS, a learned factor takes the place of norm_sum. The gradient passes it unchanged (gpas.hpp):
//
//   y = (1 − SiLU(g))·s                             ds = dy

#include <initializer_list>
#include <string>

#include "branch_warmup.hpp"
#include "gain.hpp"
#include "gpas.hpp"
#include "layers/config/placements.hpp"
#include "layers/norm/norm.hpp"
#include "layers/streams/streams.hpp"

// Parameters, or their gradients.
struct Branch {
  Norm norm_in, norm_inner, norm_out, norm_sum;
  Gain gain;        // λ
  Gain skip_gain;   // ω
  Gpas gpas;        // g
  Streams streams;  // skip, and how several streams are mixed; the functions below do not use it
  float in_scale = 1, branch_scale = 1;
  const float* warmup = nullptr;  // a further factor on what the branch adds, if there is one
  bool bypass = false;

  float out_scale() const { return warmup ? branch_scale * *warmup : branch_scale; }
};

struct BranchSaved {
  float* u = nullptr;  // (N,C) in_scale·norm_in(h), if there is a norm_in
  float* m = nullptr;  // (N,width) norm_inner(F(u)), if there is a norm_inner
  float* s = nullptr;  // (N,C) what norm_sum normalizes or GPAS scales, if one of them is there
  float* f = nullptr;  // (N,C) if backward needs it
  float* y = nullptr;  // (S,N,C)
  NormSaved in, inner, out, sum;
  StreamsSaved streams;

  const float* u_or(const float* h) const { return u ? u : h; }  // what branch_in has returned for h
  float* before_sum() const { return s ? s : y; }                // (N,C) the sum of the first stream
};

// Take what the placement asks for in block `layer`: norm_in before the sublayer; norm_inner, as wide as W_out's input,
// before W_out; the other norms after all tensors of the branch.
void declare_branch_in(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer);
void declare_branch_inner(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer,
                          int width);
void declare_branch_out(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer);
// Without `enters` the branch reads the u of another. norm_inner has inner_rows rows, or N if that is 0.
BranchSaved declare_branch_saved(Layout& layout, const Config& config, const std::string& name, int layer, int N,
                                 int inner_width, bool enters = true, int inner_rows = 0);

// Declares what the branches of block `layer` share, if the placement has it: ReZero's λ, the gate of GPAS,
// the factor of a warm-up.
void declare_shared(std::initializer_list<Branch*> branches, Layout& layout, const Config& config, int layer);

// True if backward needs f: the branch has a norm_out, a gain, mixed streams or a step on the sphere.
bool branch_keeps_output(const Config& config, int layer, const std::string& name);

// True if the model's feed-forward branches have a bypass.
bool has_bypass(const Config& config);

// True if backward needs f or s.
bool branch_saves_end(const Config& config, int layer, const std::string& name);

const float* branch_in(const BranchSaved& saved, const float* h, const Branch& p, const StreamRows& rows);
// h (N,width): F(u)
const float* branch_inner(const BranchSaved& saved, const float* h, const Branch& p, int N, int width, bool training);
// Returns f itself, or `normed` (N,C) if the branch has a norm_out or a gain; out_scale multiplies what it returns.
const float* branch_out(float* normed, const BranchSaved& saved, float* f, const Branch& p, const StreamRows& rows);
// Returns what streams_write multiplies by skip: x, or ω ⊙ x, which it writes to before_sum().
const float* branch_skip(const BranchSaved& saved, const float* x, const Branch& p, const StreamRows& rows);
// Reads before_sum(), to which a bypass adds b (N,C) first.
void branch_sum(const BranchSaved& saved, const float* b, const Branch& p, const StreamRows& rows);

// d holds dy before the call and ds after it. A bypass writes its gradient to db (N,C).
void branch_sum_backward(float* d, float* db, const Branch& g, const BranchSaved& saved, const Branch& p,
                         const StreamRows& rows);
// Returns df: d itself, or `df` if the branch has a norm_out, a gain or an out_scale. df may be d.
const float* branch_out_backward(float* df, const Branch& g, const float* d, const BranchSaved& saved, const Branch& p,
                                 const StreamRows& rows);
// d holds dm before the call and the gradient of h after it.
void branch_inner_backward(float* d, const Branch& g, const float* h, const BranchSaved& saved, const Branch& p, int N,
                           int width);
// For a branch with ω, in place of streams_read_backward. d holds ds before the call and dx after it.
void branch_skip_backward(float* d, const Branch& g, const float* dh, const float* x, const Branch& p,
                          const StreamRows& rows);
// d holds du before the call and dh after it.
void branch_in_backward(float* d, const Branch& g, const float* h, const BranchSaved& saved, const Branch& p,
                        const StreamRows& rows);
