#include "residual.hpp"

#include "layers/config/base_model.hpp"
#include "layers/kernels/elementwise.hpp"

void declare_branch_in(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer) {
  const Placement& row = placement_at(config, layer, name);
  branch.in_scale = static_cast<float>(row.in_scale(base_layer(config, layer)));
  branch.bypass = row.bypass && name == "ffn";
  if (row.norm_in) branch.norm_in = declare_norm(layout, config, name + ".norm_in", config.channels);
}

void declare_branch_inner(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer,
                          int width) {
  if (placement_at(config, layer, name).norm_inner)
    branch.norm_inner = declare_norm(layout, config, name + ".norm_inner", width);
}

void declare_branch_out(Branch& branch, Layout& layout, const Config& config, const std::string& name, int layer) {
  const Placement& row = placement_at(config, layer, name);
  const int C = config.channels;
  branch.branch_scale = static_cast<float>(*config.branch_scale);
  if (row.norm_out) branch.norm_out = declare_norm(layout, config, name + ".norm_out", C);
  if (row.norm_sum) branch.norm_sum = declare_norm(layout, config, name + ".norm_sum", C);
  if (row.gain == LearnedGain::channel)
    branch.gain = declare_gain(layout, name + ".scale", C, static_cast<float>(*config.layer_scale_init));
  if (row.skip_gain) branch.skip_gain = declare_gain(layout, name + ".skip", C, 1);
}

void declare_shared(std::initializer_list<Branch*> branches, Layout& layout, const Config& config, int layer) {
  const Placement& row = placement_at(config, layer, "attention");
  if (row.gain == LearnedGain::block) {
    const Gain gain = declare_gain(layout, "scale", 1, 0);
    for (Branch* branch : branches) branch->gain = gain;
  }
  if (row.gpas) {
    const Gpas gpas = declare_gpas(layout);
    for (Branch* branch : branches) branch->gpas = gpas;
  }
  const float* warmup = declare_branch_warmup(layout, config);
  for (Branch* branch : branches) branch->warmup = warmup;
}

BranchSaved declare_branch_saved(Layout& layout, const Config& config, const std::string& name, int layer, int N,
                                 int inner_width, bool enters, int inner_rows) {
  const Placement& row = placement_at(config, layer, name);
  const int C = config.channels;
  BranchSaved saved;
  layout.share(config.recompute >= Recompute::selective);
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
  if (row.norm_sum) saved.sum = declare_norm_saved(layout, config, name + ".norm_sum", N, C);
  if (row.norm_sum || row.gpas) saved.s = layout.take(name + ".sum", Role::norm, {N, C});
  return saved;
}

bool branch_keeps_output(const Config& config, int layer, const std::string& name) {
  const Placement& row = placement_at(config, layer, name);
  const bool reads = mixes(row.streams) || row.streams == StreamRule::sphere;
  return row.norm_out || row.gain != LearnedGain::none || reads;
}

bool has_bypass(const Config& config) { return config.placement_row->bypass; }

bool branch_saves_end(const Config& config, int layer, const std::string& name) {
  const Placement& row = placement_at(config, layer, name);
  return branch_keeps_output(config, layer, name) || row.norm_sum || row.gpas;
}

// ---- forward -----------------------------------------------------------------------------------------------------

const float* branch_in(const BranchSaved& saved, const float* h, const Branch& p, const StreamRows& rows) {
  const auto [N, C, training] = rows;
  const float* u = norm_forward(saved.u, saved.in, h, p.norm_in, N, C, training);
  scale_rows(saved.u, p.in_scale, N, C);
  return u;
}

const float* branch_inner(const BranchSaved& saved, const float* h, const Branch& p, int N, int width,
                          bool training) {
  return norm_forward(saved.m, saved.inner, h, p.norm_inner, N, width, training);
}

const float* branch_out(float* normed, const BranchSaved& saved, float* f, const Branch& p, const StreamRows& rows) {
  const auto [N, C, training] = rows;
  if (p.gain.present()) gain_forward(normed, f, p.gain, N, C);
  else norm_forward(normed, saved.out, f, p.norm_out, N, C, training);
  float* o = p.gain.present() || p.norm_out.present() ? normed : f;
  scale_rows(o, p.out_scale(), N, C);
  return o;
}

const float* branch_skip(const BranchSaved& saved, const float* x, const Branch& p, const StreamRows& rows) {
  return gain_forward(saved.before_sum(), x, p.skip_gain, rows.N, rows.C);
}

void branch_sum(const BranchSaved& saved, const float* b, const Branch& p, const StreamRows& rows) {
  const auto [N, C, training] = rows;
  float* s = saved.before_sum();
  if (p.bypass) scaled_add(s, 1, b, s, N, C);
  norm_forward(saved.y, saved.sum, s, p.norm_sum, N, C, training);
  gpas_forward(saved.y, s, p.gpas, N, C);
}

// ---- backward ----------------------------------------------------------------------------------------------------

void branch_sum_backward(float* d, float* db, const Branch& g, const BranchSaved& saved, const Branch& p,
                         const StreamRows& rows) {
  gpas_backward(g.gpas, d, saved.s, p.gpas, rows.N, rows.C);                        // y = s − SiLU(g)·stop_gradient(s)
  norm_backward(d, g.norm_sum, d, saved.s, saved.sum, p.norm_sum, rows.N, rows.C);  // y = norm_sum(s)
  if (p.bypass) copy_rows(db, d, rows.N, rows.C);                                   // s = skip·x + o + b
}

const float* branch_out_backward(float* df, const Branch& g, const float* d, const BranchSaved& saved, const Branch& p,
                                 const StreamRows& rows) {
  const int N = rows.N, C = rows.C;
  if (p.out_scale() != 1) {
    if (d != df) copy_rows(df, d, N, C);
    scale_rows(df, p.out_scale(), N, C);  // o = out_scale·...
    d = df;
  }
  if (p.gain.present()) return gain_backward(df, g.gain, d, saved.f, p.gain, N, C);  // o = out_scale·λ ⊙ f
  return norm_backward(df, g.norm_out, d, saved.f, saved.out, p.norm_out, N, C);     // o = out_scale·norm_out(f)
}

void branch_inner_backward(float* d, const Branch& g, const float* h, const BranchSaved& saved, const Branch& p, int N,
                           int width) {
  norm_backward(d, g.norm_inner, d, h, saved.inner, p.norm_inner, N, width);  // m = norm_inner(h)
}

void branch_skip_backward(float* d, const Branch& g, const float* dh, const float* x, const Branch& p,
                          const StreamRows& rows) {
  scale_rows(d, p.streams.skip, rows.N, rows.C);                          // s = skip·ω ⊙ x + o
  gain_backward(d, g.skip_gain, d, x, p.skip_gain, rows.N, rows.C);  // s = skip·ω ⊙ x + o
  scaled_add(d, 1, d, dh, rows.N, rows.C);                                // x is also what the branch reads
}

void branch_in_backward(float* d, const Branch& g, const float* h, const BranchSaved& saved, const Branch& p,
                        const StreamRows& rows) {
  scale_rows(d, p.in_scale, rows.N, rows.C);                                   // u = in_scale·norm_in(h)
  norm_backward(d, g.norm_in, d, h, saved.in, p.norm_in, rows.N, rows.C);  // u = in_scale·norm_in(h)
}
