#include "residual.hpp"

#include "parallel.hpp"

void declare_branch_enter(Branch& branch, Layout& layout, const Config& config, const std::string& name) {
  branch.skip = static_cast<float>(*config.skip_scale);
  if (placement_row(config.placement).norm_in)
    branch.norm_in = declare_norm(layout, config, name + ".norm_in", config.channels);
}

void declare_branch_leave(Branch& branch, Layout& layout, const Config& config, const std::string& name) {
  const Placement& row = placement_row(config.placement);
  if (row.norm_out) branch.norm_out = declare_norm(layout, config, name + ".norm_out", config.channels);
  if (row.norm_sum) branch.norm_sum = declare_norm(layout, config, name + ".norm_sum", config.channels);
}

BranchSaved declare_branch_saved(Layout& layout, const Config& config, const std::string& name, int N) {
  const Placement& row = placement_row(config.placement);
  BranchSaved saved;
  if (row.norm_in) {
    saved.in = declare_norm_saved(layout, config, name + ".norm_in", N, config.channels);
    saved.u = layout.take(name + ".norm_in", {N, config.channels});
  }
  if (row.norm_out) saved.out = declare_norm_saved(layout, config, name + ".norm_out", N, config.channels);
  if (row.norm_sum) {
    saved.sum = declare_norm_saved(layout, config, name + ".norm_sum", N, config.channels);
    saved.s = layout.take(name + ".sum", {N, config.channels});
  }
  return saved;
}

bool branch_keeps_output(const Config& config) { return placement_row(config.placement).norm_out; }

namespace {

// out = scale·a + b, element by element; out may be a or b.
void scaled_add(float* out, float scale, const float* a, const float* b, int N, int C) {
  parallel_for(N, 1, C, [&](int begin, int end) {
    for (size_t i = static_cast<size_t>(begin) * C; i < static_cast<size_t>(end) * C; ++i)
      out[i] = scale * a[i] + b[i];
  });
}

}  // namespace

const float* branch_enter(const BranchSaved& saved, const float* x, const Branch& p, int N, int C, bool training) {
  return norm_forward(saved.u, saved.in, x, p.norm_in, N, C, training);
}

void branch_leave(float* y, const BranchSaved& saved, float* normed, const float* x, const float* f,
                  const Branch& p, int N, int C, bool training) {
  const float* out = norm_forward(normed, saved.out, f, p.norm_out, N, C, training);
  float* s = p.norm_sum.present() ? saved.s : y;
  scaled_add(s, p.skip, x, out, N, C);
  norm_forward(y, saved.sum, s, p.norm_sum, N, C, training);
}

const float* branch_leave_backward(float* d, float* df, const Branch& g, const float* f, const BranchSaved& saved,
                                   const Branch& p, int N, int C) {
  norm_backward(d, g.norm_sum, d, saved.s, saved.sum, p.norm_sum, N, C);        // y = norm_sum(s)
  return norm_backward(df, g.norm_out, d, f, saved.out, p.norm_out, N, C);  // s = skip·x + norm_out(f)
}

void branch_enter_backward(float* d, const Branch& g, float* du, const float* x, const BranchSaved& saved,
                           const Branch& p, int N, int C) {
  norm_backward(du, g.norm_in, du, x, saved.in, p.norm_in, N, C);  // u = norm_in(x)
  scaled_add(d, p.skip, d, du, N, C);                              // s = skip·x + ...
}
