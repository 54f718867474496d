#include "gated.hpp"

#include "layers/kernels/elementwise.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"
#include "planes.hpp"
#include "stream_projection.hpp"

using simd::all;
using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

std::string name_of_norm(const std::string& prefix, int s) { return prefix + "." + std::to_string(s) + ".stream_norm"; }

}  // namespace

double multiply_adds_of_gates(const Streams& p, int C) {
  return (p.rows() + p.rank) * static_cast<double>(p.count) * C;
}

// As in the class, matrices are drawn from N(0, .02²). So gates start near ½, and a branch reads half the mean of the
// normalized streams and writes f to each of them.
void declare_gated(Streams& p, Layout& layout, const Config& config, const std::string& prefix) {
  const int C = config.channels, wide = p.count * C;
  for (int s = 0; s < p.count; ++s) p.norms.push_back(declare_norm(layout, config, name_of_norm(prefix, s), C));
  p.weight = layout.take(prefix + ".weight", Role::streams, {p.rows(), wide}, {0, .02f});
  p.up = layout.take(prefix + ".up", Role::streams, {wide, p.rank}, {0, .02f});
}

void declare_gated_saved(StreamsSaved& saved, Layout& layout, const Config& config, const std::string& prefix,
                         const Streams& p, int N) {
  for (int s = 0; s < p.count; ++s)
    saved.norms.push_back(declare_norm_saved(layout, config, name_of_norm(prefix, s), N, config.channels));
  saved.z = layout.take(prefix + ".z", Role::streams, {p.rows(), N});
}

// ---- forward -----------------------------------------------------------------------------------------------------

namespace {

// Writes v to scratch.wide.
void normalize(const StreamsScratch& scratch, const StreamsSaved& saved, const float* x, const Streams& p,
               const StreamRows& rows) {
  const auto [N, C, training] = rows;
  for (int s = 0; s < p.count; ++s) {
    float* v = scratch.wide + s * plane(N, C);
    if (norm_forward(v, saved.norms[s], x + s * plane(N, C), p.norms[s], N, C, training) != v)
      copy_rows(v, x + s * plane(N, C), N, C);
  }
}

// Writes u (r,N), and G to scratch.gates.
void open_gates(const StreamsScratch& scratch, const float* z, const Streams& p, int N, int C) {
  const int r = p.rank;
  float* u = scratch.hidden;
  parallel_for(r, 1, 16 * static_cast<size_t>(N), [&](int begin, int end) {
    for (int j = begin; j < end; ++j)
      sweep(N, [&](int n, int lanes) {
        const Vec y = load(z + plane(j, N) + n, lanes);
        store(u + plane(j, N) + n, y * simd::sigmoid(y), lanes);
      });
  });
  parallel_for(N, kRowsTogether, plane(p.count * r, C), [&](int begin, int end) {
    for (int s = 0; s < p.count; ++s) {
      float* gates = scratch.gates + s * plane(N, C) + plane(begin, C);
      gemm_serial({gates, size_t(C)}, {u + begin, 1, size_t(N)}, {p.up + s * plane(C, r), 1, size_t(r)}, end - begin, C,
                  r, false);
      sweep((end - begin) * C,
            [&](int i, int lanes) { store(gates + i, simd::sigmoid(load(gates + i, lanes)), lanes); });
    }
  });
}

}  // namespace

void gated_read(const StreamsSaved& saved, const StreamsScratch& scratch, float* h, const float* x, const Streams& p,
                const StreamRows& rows) {
  const int N = rows.N, C = rows.C, S = p.count;
  normalize(scratch, saved, x, p, rows);
  project(saved.z, scratch.wide, p, N, C);
  scale_rows(saved.z, 1.f / static_cast<float>(S), p.rows(), N);
  open_gates(scratch, saved.z, p, N, C);
  parallel_for(N, 1, plane(S, C), [&](int begin, int end) {
    for (size_t i = plane(begin, C); i < plane(end, C); ++i) {
      float sum = 0;
      for (int s = 0; s < S; ++s) sum += scratch.gates[s * plane(N, C) + i] * scratch.wide[s * plane(N, C) + i];
      h[i] = sum / static_cast<float>(S);
    }
  });
}

void gated_coefficients(float* coefficients, const float* z, const Streams& p, int N) {
  each_coefficient(p.coefficients(), N, [&](int s) {
    const float* row = z + plane(p.rank + s, N);
    sweep(N, [&](int n, int lanes) {
      store(coefficients + plane(s, N) + n, 2.f * simd::sigmoid(load(row + n, lanes)), lanes);
    });
  });
}

// ---- backward ----------------------------------------------------------------------------------------------------

namespace {

// dh → scratch.dwide = dh ⊙ G/S, and scratch.gates becomes da = dh ⊙ v/S ⊙ G ⊙ (1 − G).
void gates_backward(const StreamsScratch& scratch, const float* dh, int S, int N, int C) {
  parallel_for(N, 1, 4 * plane(S, C), [&](int begin, int end) {
    for (int s = 0; s < S; ++s)
      for (size_t i = plane(begin, C); i < plane(end, C); ++i) {
        const size_t at = s * plane(N, C) + i;
        const float d = dh[i] / static_cast<float>(S), gate = scratch.gates[at];
        scratch.dwide[at] = d * gate;
        scratch.gates[at] = d * scratch.wide[at] * gate * (1 - gate);
      }
  });
}

// dup += da·uᵀ, and the first r rows of dz = upᵀ·da ⊙ silu'(z)/S.
void up_backward(const StreamsScratch& scratch, const Streams& g, const float* z, const Streams& p, int N, int C) {
  constexpr int kChannelsTogether = 64;
  const int S = p.count, r = p.rank;
  const float* da = scratch.gates;
  if (g.up)
    parallel_for(C, kChannelsTogether, plane(S * r, N), [&](int begin, int end) {
      for (int s = 0; s < S; ++s)
        gemm_serial({g.up + s * plane(C, r) + plane(begin, r), size_t(r)}, {da + s * plane(N, C) + begin, 1, size_t(C)},
                    {scratch.hidden, 1, size_t(N)}, end - begin, r, N, true);
    });
  parallel_for(N, kRowsTogether, plane(S * r, C), [&](int begin, int end) {
    for (int s = 0; s < S; ++s)
      gemm_serial({scratch.dz + begin, size_t(N)}, {p.up + s * plane(C, r), 1, size_t(r)},
                  {da + s * plane(N, C) + plane(begin, C), 1, size_t(C)}, r, end - begin, C, s > 0);
    for (int j = 0; j < r; ++j)
      sweep(end - begin, [&](int n, int lanes) {
        const size_t at = plane(j, N) + begin + n;
        const Vec y = load(z + at, lanes), t = simd::sigmoid(y);
        store(scratch.dz + at, load(scratch.dz + at, lanes) * t * (1.f + y * (1.f - t)), lanes);
      });
  });
}

}  // namespace

void gated_read_backward(float* d, const Streams& g, const StreamsScratch& scratch, const float* dh, const float* x,
                         const StreamsSaved& saved, const Streams& p, const StreamRows& rows) {
  const int N = rows.N, C = rows.C, S = p.count;
  const bool ends = p.kinds == 0;  // dh is the first plane of d
  normalize(scratch, saved, x, p, rows);
  open_gates(scratch, saved.z, p, N, C);
  gates_backward(scratch, dh, S, N, C);
  up_backward(scratch, g, saved.z, p, N, C);
  each_coefficient(p.coefficients(), N, [&](int s) {  // write = 2σ(z)
    const size_t row = plane(p.rank + s, N);
    sweep(N, [&](int n, int lanes) {
      const Vec t = simd::sigmoid(load(saved.z + row + n, lanes));
      store(scratch.dz + row + n, 2.f * load(scratch.d + plane(s, N) + n, lanes) * t * (1.f - t), lanes);
    });
  });
  scale_rows(scratch.dz, 1.f / static_cast<float>(S), p.rows(), N);  // z = weight·v/S
  project_backward_weight(g.weight, scratch.dz, scratch.wide, p, N, C);
  project_backward(scratch.dwide, scratch.dz, p, N, C, true);
  for (int s = 0; s < S; ++s) {
    float *dv = scratch.dwide + s * plane(N, C), *ds = d + s * plane(N, C);
    const float* dx = norm_backward(dv, g.norms[s], dv, x + s * plane(N, C), saved.norms[s], p.norms[s], N, C);
    if (ends) copy_rows(ds, dx, N, C);
    else scaled_add(ds, 1, ds, dx, N, C);
  }
}
