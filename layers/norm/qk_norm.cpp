#include "qk_norm.hpp"

#include "layers/kernels/elementwise.hpp"

QkRows qk_rows(const Config& config, int heads) {
  if (config.qk_norm == QkNormKind::full) return {1, heads * config.head_dim};
  return {heads, config.head_dim};
}

QkNorm declare_qk_norm(Layout& layout, const Config& config, const std::string& name) {
  if (!has_qk_norms(config.qk_norm)) return {};
  QkNorm p;
  p.q = declare_norm(layout, config, name + ".q_norm", qk_rows(config, config.n_head).width);
  p.k = declare_norm(layout, config, name + ".k_norm", qk_rows(config, config.kv_heads).width);
  if (config.qk_norm == QkNormKind::qkv) p.v = declare_norm(layout, config, name + ".v_norm", config.head_dim);
  return p;
}

QkNormSaved declare_qk_norm_saved(Layout& layout, const Config& config, const std::string& name, int N, int M) {
  if (!has_qk_norms(config.qk_norm)) return {};
  const int H = config.n_head, KV = config.kv_heads, D = config.head_dim;
  QkNormSaved saved;
  saved.q.x = layout.take(name + ".q", Role::norm, {N, H * D});
  saved.k.x = layout.take(name + ".k", Role::norm, {M, KV * D});
  const auto [q_count, q_width] = qk_rows(config, H);
  const auto [k_count, k_width] = qk_rows(config, KV);
  const auto declare = [&](InPlaceNormSaved& part, const char* norm, int rows, int width) {
    static_cast<NormSaved&>(part) = declare_norm_saved(layout, config, name + norm, rows, width);
  };
  declare(saved.q, ".q_norm", N * q_count, q_width);
  declare(saved.k, ".k_norm", M * k_count, k_width);
  if (config.qk_norm != QkNormKind::qkv) return saved;
  saved.v.x = layout.take(name + ".v_before", Role::norm, {M, KV * D});
  declare(saved.v, ".v_norm", M * k_count, k_width);
  return saved;
}

namespace {

// q, k or v: `heads` in each row.
struct Part {
  float* rows;
  size_t stride;
  int heads, N;
};
Part q_part(const QkNormRows& x, const Config& config) { return {x.q, x.q_stride, config.n_head, x.N}; }
Part k_part(const QkNormRows& x, const Config& config) { return {x.k, x.kv_stride, config.kv_heads, x.M}; }
Part v_part(const QkNormRows& x, const Config& config) { return {x.v, x.kv_stride, config.kv_heads, x.M}; }

// The norms need contiguous rows, so q and k are copied out, and back in.
void part_forward(const Part& part, const InPlaceNormSaved& saved, float* scratch, const Norm& p,
                  const Config& config) {
  const int width = part.heads * config.head_dim;
  const auto [count, row] = qk_rows(config, part.heads);
  copy_rows(saved.x, width, part.rows, part.stride, part.N, width);
  norm_forward(scratch, saved, saved.x, p, part.N * count, row, false);  // a row norm: `training` has no effect
  copy_rows(part.rows, part.stride, scratch, width, part.N, width);
}

void part_backward(const Part& d, const Norm& g, float* scratch, const InPlaceNormSaved& saved, const Norm& p,
                   const Config& config) {
  const int width = d.heads * config.head_dim;
  const auto [count, row] = qk_rows(config, d.heads);
  copy_rows(scratch, width, d.rows, d.stride, d.N, width);
  norm_backward(scratch, g, scratch, saved.x, saved, p, d.N * count, row);
  copy_rows(d.rows, d.stride, scratch, width, d.N, width);
}

}  // namespace

void qk_norm_forward(const QkNormRows& x, const QkNormSaved& saved, float* scratch, const QkNorm& p,
                     const Config& config) {
  if (!p.q.present()) return;
  part_forward(q_part(x, config), saved.q, scratch, p.q, config);
  if (x.M == 0) return;
  part_forward(k_part(x, config), saved.k, scratch, p.k, config);
  if (p.v.present()) part_forward(v_part(x, config), saved.v, scratch, p.v, config);
}

void qk_norm_backward(const QkNormRows& d, const QkNorm& g, float* scratch, const QkNormSaved& saved, const QkNorm& p,
                      const Config& config) {
  if (!p.q.present()) return;
  part_backward(q_part(d, config), g.q, scratch, saved.q, p.q, config);
  part_backward(k_part(d, config), g.k, scratch, saved.k, p.k, config);
  if (p.v.present()) part_backward(v_part(d, config), g.v, scratch, saved.v, p.v, config);
}
