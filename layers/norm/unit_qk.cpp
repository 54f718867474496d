#include "unit_qk.hpp"

#include <cmath>
#include <vector>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

UnitQk declare_unit_qk(Layout& layout, const Config& config, const std::string& name) {
  if (config.qk_norm != QkNormKind::unit) return {};
  const float root = std::sqrt(static_cast<float>(config.channels));
  return {layout.take(name + ".qk.gain", Role::gain, {config.n_head * config.head_dim}, {1 / root, 0}), root};
}

UnitQkSaved declare_unit_qk_saved(Layout& layout, const Config& config, const std::string& name, int N) {
  if (config.qk_norm != QkNormKind::unit) return {};
  const int H = config.n_head, D = config.head_dim;
  const auto heads = [&](const char* part) {
    return UnitHeads{layout.take(name + part, Role::norm, {N, H * D}),
                     layout.take(name + part + ".scale", Role::norm, {N, H})};
  };
  return {heads(".q.unit"), heads(".k.unit")};
}

namespace {

void heads_forward(float* x, size_t stride, const UnitHeads& saved, const UnitQk& p, int N, int H, int D) {
  parallel_each(N, 4 * static_cast<size_t>(H) * D, [&](size_t n) {
    for (int h = 0; h < H; ++h) {
      float *y = x + n * stride + h * D, *u = saved.unit + (n * H + h) * D;
      const double squares = simd::dot(y, y, D);
      const float r = squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0;
      saved.scale[n * H + h] = r;
      sweep(D, [&](int i, int lanes) {
        const Vec unit = r * load(y + i, lanes);
        store(u + i, unit, lanes);
        store(y + i, p.factor * load(p.weight + h * D + i, lanes) * unit, lanes);  // s ⊙ u
      });
    }
  });
}

// Sums each block of rows separately, so that the order does not depend on the number of threads.
void heads_backward(float* d, size_t stride, const UnitQk& g, const UnitHeads& saved, const UnitQk& p, int N, int H,
                    int D) {
  thread_local std::vector<float> sums;  // (blocks,H·D) √C·dy ⊙ u
  sums.assign(static_cast<size_t>(row_blocks(N)) * H * D, 0.f);
  float* const first = sums.data();
  parallel_for(N, kRowBlock, 8 * static_cast<size_t>(H) * D, [&](int begin, int end) {
    for (size_t n = begin; n < static_cast<size_t>(end); ++n)
      for (int h = 0; h < H; ++h) {
        float *dx = d + n * stride + h * D, *sum = first + n / kRowBlock * H * D + h * D;
        const float* u = saved.unit + (n * H + h) * D;
        const float r = saved.scale[n * H + h];
        sweep(D, [&](int i, int lanes) {
          const Vec dy = p.factor * load(dx + i, lanes);
          store(sum + i, load(sum + i, lanes) + dy * load(u + i, lanes), lanes);  // y = s ⊙ u
          store(dx + i, load(p.weight + h * D + i, lanes) * dy, lanes);           // y = s ⊙ u
        });
        const float along = static_cast<float>(simd::dot(u, dx, D));
        sweep(D, [&](int i, int lanes) {  // u = x/‖x‖
          store(dx + i, r * (load(dx + i, lanes) - along * load(u + i, lanes)), lanes);
        });
      }
  });
  add_column_sums(g.weight, first, row_blocks(N), H * D);
}

}  // namespace

void unit_qk_forward(const QkNormRows& x, const UnitQkSaved& saved, const UnitQk& p, const Config& config) {
  if (!p.present()) return;
  heads_forward(x.q, x.q_stride, saved.q, p, x.N, config.n_head, config.head_dim);
  heads_forward(x.k, x.kv_stride, saved.k, p, x.N, config.n_head, config.head_dim);
}

void unit_qk_backward(const QkNormRows& d, const UnitQk& g, const UnitQkSaved& saved, const UnitQk& p,
                      const Config& config) {
  if (!p.present()) return;
  heads_backward(d.q, d.q_stride, g, saved.q, p, d.N, config.n_head, config.head_dim);
  heads_backward(d.k, d.kv_stride, g, saved.k, p, d.N, config.n_head, config.head_dim);
}
