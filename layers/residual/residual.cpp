#include "residual.hpp"

#include "layers/kernels/elementwise.hpp"

void declare_branch_enter(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer,
                          int index) {
  const Placement& row = placement_at(config, layer, name);
  branch.skip = static_cast<float>(*config.skip_scale);
  branch.in_scale = static_cast<float>(row.in_scale(layer));
  branch.bypass = row.bypass && name == "ffn";
  branch.streams = declare_streams(layout, config, name, index);
  if (row.norm_in) branch.norm_in = declare_norm(layout, config, name + ".norm_in", config.channels);
}

void declare_branch_inner(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer,
                          int width) {
  if (placement_at(config, layer, name).norm_inner)
    branch.norm_inner = declare_norm(layout, config, name + ".norm_inner", width);
}

void declare_branch_leave(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer) {
  const Placement& row = placement_at(config, layer, name);
  const int C = config.channels;
  if (row.norm_out) branch.norm_out = declare_norm(layout, config, name + ".norm_out", C);
  if (row.norm_sum) branch.norm_sum = declare_norm(layout, config, name + ".norm_sum", C);
  if (row.gain == LearnedGain::channel)
    branch.gain = declare_gain(layout, name + ".scale", C, static_cast<float>(*config.layer_scale_init));
}

void declare_shared_gain(Branch& first, Branch& second, Layout& layout, const Config& config, int layer) {
  if (placement_at(config, layer, "attention").gain == LearnedGain::block)
    first.gain = second.gain = declare_gain(layout, "scale", 1, 0);
}

BranchSaved declare_branch_saved(Layout& layout, const Config& config, const std::string& name, int layer, int N,
                                 int inner_width, bool enters, int inner_rows) {
  const Placement& row = placement_at(config, layer, name);
  const int C = config.channels;
  BranchSaved saved;
  layout.share(config.recompute >= Recompute::selective);
  saved.streams = declare_streams_saved(layout, config, name, N);
  if (row.norm_in && enters) {
    saved.in = declare_norm_saved(layout, config, name + ".norm_in", N, C);
    saved.u = layout.take(name + ".norm_in", Role::norm, {N, C});
  }
  if (row.norm_inner) {
    const int rows = inner_rows > 0 ? inner_rows : N;
    saved.inner = declare_norm_saved(layout, config, name + ".norm_inner", rows, inner_width);
    saved.m = layout.take(name + ".norm_inner", Role::norm, {rows, inner_width});
  }
  layout.share(config.recompute >= Recompute::full);
  if (row.norm_out) saved.out = declare_norm_saved(layout, config, name + ".norm_out", N, C);
  if (row.norm_sum) {
    saved.sum = declare_norm_saved(layout, config, name + ".norm_sum", N, C);
    saved.s = layout.take(name + ".sum", Role::norm, {N, C});
  }
  return saved;
}

bool branch_keeps_output(const Config& config, int layer, const std::string& name) {
  const Placement& row = placement_at(config, layer, name);
  const bool mixes = row.streams != StreamRule::single && row.streams != StreamRule::dual;
  return row.norm_out || row.gain != LearnedGain::none || mixes;
}

bool has_bypass(const Config& config) { return placement_row(config.placement).bypass; }

bool branch_saves_end(const Config& config, int layer, const std::string& name) {
  return branch_keeps_output(config, layer, name) || placement_at(config, layer, name).norm_sum;
}

const float* branch_enter(const BranchSaved& saved, const StreamsScratch& scratch, const float* x, const Branch& p,
                          int N, int C, bool training) {
  if (p.streams.mixes()) x = streams_read(saved.streams, scratch, x, p.streams, N, C, training);
  const float* u = norm_forward(saved.u, saved.in, x, p.norm_in, N, C, training);
  scale_rows(saved.u, p.in_scale, N, C);
  return u;
}

const float* branch_entered(const BranchSaved& saved, const float* x) {
  return saved.u ? saved.u : saved.streams.h ? saved.streams.h : x;
}

const float* branch_inner(const BranchSaved& saved, const float* h, const Branch& p, int N, int width,
                          bool training) {
  return norm_forward(saved.m, saved.inner, h, p.norm_inner, N, width, training);
}

void branch_leave(float* y, const BranchSaved& saved, const StreamsScratch& scratch, float* normed, const float* x,
                  const float* f, const Branch& p, int N, int C, bool training, const float* b) {
  if (p.streams.mixes()) return streams_write(y, scratch, p.skip, x, f, p.streams, N, C);
  const float* out = p.gain.present() ? gain_forward(normed, f, p.gain, N, C)
                                      : norm_forward(normed, saved.out, f, p.norm_out, N, C, training);
  float* s = p.norm_sum.present() ? saved.s : y;
  scaled_add(s, p.skip, x, out, N, C);
  if (p.bypass) scaled_add(s, 1, b, s, N, C);
  norm_forward(y, saved.sum, s, p.norm_sum, N, C, training);
  const size_t second = static_cast<size_t>(N) * C;
  if (p.streams.rule == StreamRule::dual) scaled_add(y + second, p.skip, x + second, out, N, C);
}

const float* branch_leave_backward(float* d, float* df, const Branch& g, const StreamsScratch& scratch, const float* x,
                                   const float* f, const BranchSaved& saved, const Branch& p, int N, int C, float* db) {
  if (p.streams.mixes()) {
    streams_write_backward(d, df, scratch, p.skip, x, f, saved.streams, p.streams, N, C);
    return df;
  }
  norm_backward(d, g.norm_sum, d, saved.s, saved.sum, p.norm_sum, N, C);  // y = norm_sum(s)
  if (p.bypass) copy_rows(db, d, N, C);                                          // s = skip·x + f + b
  if (p.streams.rule == StreamRule::dual) {
    float* second = d + static_cast<size_t>(N) * C;
    scaled_add(df, 1, d, second, N, C);   // s = skip·x[0] + f and y[1] = skip·x[1] + f
    scale_rows(second, p.skip, N, C);     // y[1] = skip·x[1] + f
    return df;
  }
  if (p.gain.present()) return gain_backward(df, g.gain, d, f, p.gain, N, C);  // s = skip·x + λ ⊙ f
  return norm_backward(df, g.norm_out, d, f, saved.out, p.norm_out, N, C);  // s = skip·x + norm_out(f)
}

void branch_inner_backward(float* d, const Branch& g, const float* h, const BranchSaved& saved, const Branch& p, int N,
                           int width) {
  norm_backward(d, g.norm_inner, d, h, saved.inner, p.norm_inner, N, width);  // m = norm_inner(h)
}

void branch_enter_backward(float* d, const Branch& g, const StreamsScratch& scratch, float* du, const float* x,
                           const BranchSaved& saved, const Branch& p, int N, int C) {
  const bool mixes = p.streams.mixes();
  const float* in = mixes ? saved.streams.h : x;
  scale_rows(du, p.in_scale, N, C);                                 // u = in_scale·norm_in(x)
  norm_backward(du, g.norm_in, du, in, saved.in, p.norm_in, N, C);  // u = in_scale·norm_in(x)
  if (mixes) return streams_read_backward(d, g.streams, scratch, du, x, saved.streams, p.streams, N, C);
  scaled_add(d, p.skip, d, du, N, C);  // s = skip·x + ...
}
