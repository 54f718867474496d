#include "qk_norm.hpp"

#include "layers/kernels/elementwise.hpp"

QkRows qk_rows(const Config& config, int heads) {
  if (config.qk_norm == QkNormKind::full) return {1, heads * config.head_dim};
  return {heads, config.head_dim};
}

QkNorm declare_qk_norm(Layout& layout, const Config& config, const std::string& name) {
  if (config.qk_norm == QkNormKind::none) return {};
  QkNorm p;
  p.q = declare_norm(layout, config, name + ".q_norm", qk_rows(config, config.n_head).width);
  p.k = declare_norm(layout, config, name + ".k_norm", qk_rows(config, config.kv_heads).width);
  if (config.qk_norm == QkNormKind::qkv) p.v = declare_norm(layout, config, name + ".v_norm", config.head_dim);
  return p;
}

QkNormSaved declare_qk_norm_saved(Layout& layout, const Config& config, const std::string& name, int N) {
  if (config.qk_norm == QkNormKind::none) return {};
  const int H = config.n_head, KV = config.kv_heads, D = config.head_dim;
  QkNormSaved saved;
  saved.q.x = layout.take(name + ".q", Role::norm, {N, H * D});
  saved.k.x = layout.take(name + ".k", Role::norm, {N, KV * D});
  const auto [q_count, q_width] = qk_rows(config, H);
  const auto [k_count, k_width] = qk_rows(config, KV);
  const auto declare = [&](InPlaceNormSaved& part, const char* norm, int count, int width) {
    static_cast<NormSaved&>(part) = declare_norm_saved(layout, config, name + norm, N * count, width);
  };
  declare(saved.q, ".q_norm", q_count, q_width);
  declare(saved.k, ".k_norm", k_count, k_width);
  if (config.qk_norm != QkNormKind::qkv) return saved;
  saved.v.x = layout.take(name + ".v_before", Role::norm, {N, KV * D});
  declare(saved.v, ".v_norm", k_count, k_width);
  return saved;
}

namespace {

// The norms need contiguous rows, so q and k are copied out, and back in.
void part_forward(float* part, const InPlaceNormSaved& saved, float* scratch, const Norm& p, const Config& config,
                  int heads, int N) {
  const int width = heads * config.head_dim;
  const auto [count, row] = qk_rows(config, heads);
  copy_rows(saved.x, width, part, config.qkv_width(), N, width);
  norm_forward(scratch, saved, saved.x, p, N * count, row, false);  // a row norm: `training` has no effect
  copy_rows(part, config.qkv_width(), scratch, width, N, width);
}

void part_backward(float* dpart, const Norm& g, float* scratch, const InPlaceNormSaved& saved, const Norm& p,
                   const Config& config, int heads, int N) {
  const int width = heads * config.head_dim;
  const auto [count, row] = qk_rows(config, heads);
  copy_rows(scratch, width, dpart, config.qkv_width(), N, width);
  norm_backward(scratch, g, scratch, saved.x, saved, p, N * count, row);
  copy_rows(dpart, config.qkv_width(), scratch, width, N, width);
}

}  // namespace

void qk_norm_forward(float* qkv, const QkNormSaved& saved, float* scratch, const QkNorm& p, const Config& config,
                     int N) {
  if (!p.q.present()) return;
  const int H = config.n_head, KV = config.kv_heads;
  part_forward(qkv, saved.q, scratch, p.q, config, H, N);
  part_forward(qkv + H * config.head_dim, saved.k, scratch, p.k, config, KV, N);
  if (p.v.present())
    part_forward(qkv + (H + KV) * config.head_dim, saved.v, scratch, p.v, config, KV, N);
}

void qk_norm_backward(float* dqkv, const QkNorm& g, float* scratch, const QkNormSaved& saved, const QkNorm& p,
                      const Config& config, int N) {
  if (!p.q.present()) return;
  const int H = config.n_head, KV = config.kv_heads;
  part_backward(dqkv, g.q, scratch, saved.q, p.q, config, H, N);
  part_backward(dqkv + H * config.head_dim, g.k, scratch, saved.k, p.k, config, KV, N);
  if (p.v.present())
    part_backward(dqkv + (H + KV) * config.head_dim, g.v, scratch, saved.v, p.v, config, KV, N);
}
