#pragma once
// A residual branch with its normalizations: the one place where a placement acts.
//
//   y = norm_sum( skip·x + norm_out( F( norm_in(x) ) ) )                     an absent norm is the identity
//
//   u = branch_enter(x)           u = norm_in(x)
//   f = F(u)                      attention or feed-forward; the block's business
//   y = branch_leave(x, f)        s = skip·x + norm_out(f),  y = norm_sum(s)
//
//   df = branch_leave_backward(dy)        ds = norm_sum'(dy),  df = norm_out'(ds); ds stays where dy was
//   du = F'(df)
//   dx = branch_enter_backward(du, ds)    dx = skip·ds + norm_in'(du); dx stays where ds was
//
//   saves     what the norms need: f where norm_out is, s where norm_sum is; the caller still holds x

#include "norm.hpp"

// Parameters, or their gradients.
struct Branch {
  Norm norm_in, norm_out, norm_sum;
  float skip = 1;
};

struct BranchSaved {
  float* u = nullptr;  // (N,C) norm_in(x), where there is a norm_in
  float* s = nullptr;  // (N,C) what norm_sum normalizes, where there is one
  NormSaved in, out, sum;
};

// Takes the norms the placement asks for. norm_in comes first in the table and the other two behind the
// branch's own tensors, so there are two halves.
void declare_branch_enter(Branch& branch, Layout& layout, const Config& config, const std::string& name);
void declare_branch_leave(Branch& branch, Layout& layout, const Config& config, const std::string& name);
BranchSaved declare_branch_saved(Layout& layout, const Config& config, const std::string& name, int N);

// True where norm_out is there, and so the branch's output f has to be kept for backward.
bool branch_keeps_output(const Config& config);

const float* branch_enter(const BranchSaved& saved, const float* x, const Branch& p, int N, int C, bool training);

// y may be x. normed (N,C): scratch for norm_out(f).
void branch_leave(float* y, const BranchSaved& saved, float* normed, const float* x, const float* f,
                  const Branch& p, int N, int C, bool training);

// d holds dy and then ds. Returns df: d itself, or `df` where norm_out is there.
const float* branch_leave_backward(float* d, float* df, const Branch& g, const float* f, const BranchSaved& saved,
                                   const Branch& p, int N, int C);

// d holds ds and then dx; du is overwritten.
void branch_enter_backward(float* d, const Branch& g, float* du, const float* x, const BranchSaved& saved,
                           const Branch& p, int N, int C);
