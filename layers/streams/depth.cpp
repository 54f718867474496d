#include "depth.hpp"

#include <algorithm>
#include <cmath>

#include "layers/kernels/elementwise.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"
#include "layers/kernels/simd.hpp"
#include "planes.hpp"

using simd::all;
using simd::load;
using simd::multiply_add;
using simd::store;
using simd::sweep;
using simd::Vec;

// ---- blocks of branches ------------------------------------------------------------------------------------------

bool begins_sum(const Config& config, int branch) { return branch % config.residual_block == 0; }

int finished_sums(const Config& config, int branch) {
  return branch / config.residual_block + (begins_sum(config, branch) ? 0 : 1);
}

double sums_read(const Config& config) {
  const int branches = config.branches() * config.n_layer;
  double sources = 0;
  for (int branch = 1; branch <= branches; ++branch) sources += finished_sums(config, branch) + 1;
  return sources / branches;
}

// ---- declarations ------------------------------------------------------------------------------------------------

DepthQuery declare_depth(Layout& layout, const Config& config, const std::string& prefix, int branch) {
  DepthQuery p;
  p.sums = finished_sums(config, branch);
  p.begins = begins_sum(config, branch);
  if (branch == 0) return p;
  p.normed = stream_rule(config) == StreamRule::attnres_normed;
  if (p.normed) {
    p.norm = {.kind = NormKind::rmsnorm, .eps = config.norm_eps, .gainless = true};
    p.scale = 1 / std::sqrt(static_cast<float>(config.channels));
  } else {
    p.norm = declare_norm(layout, config, prefix + ".norm", config.channels);
  }
  p.query = layout.take(prefix + ".query", Role::streams, {1, config.channels});
  return p;
}

float* declare_sum_gradients(Layout& layout, const Config& config, int N) {
  const int sums = finished_sums(config, config.branches() * config.n_layer);
  return layout.take("scratch.sums", Role::scratch, {sums, N, config.channels});
}

// ---- weights -----------------------------------------------------------------------------------------------------

namespace {

// The gain of the keys.
float gain_at(const Norm& norm, int c) {
  if (norm.gainless) return 1;
  return norm.unit_offset ? 1 + norm.gain[c] : norm.gain[c];
}

// q = scale·w ⊙ gain
std::vector<float> query_of(const DepthQuery& p, int C) {
  std::vector<float> q(C);
  for (int c = 0; c < C; ++c) q[c] = p.scale * p.query[c] * gain_at(p.norm, c);
  return q;
}

// A row of a source, r = 1/rms(v), z, and its weight α.
struct Source {
  const float* v;
  double r, z, weight;
};

// Fills the sources of row n; the last is x.
void weigh(std::vector<Source>& sources, const DepthSums& sums, const float* x, const float* q, const DepthQuery& p,
           int n, int C) {
  double top = -INFINITY, total = 0;
  for (int j = 0; j <= p.sums; ++j) {
    Source& s = sources[j];
    s.v = (j < p.sums ? sums.v[j] : x) + plane(n, C);
    s.r = 1 / std::sqrt(simd::dot(s.v, s.v, C) / C + static_cast<double>(p.norm.eps));
    s.z = s.r * simd::dot(q, s.v, C);
    top = std::max(top, s.z);
  }
  for (Source& s : sources) total += s.weight = std::exp(s.z - top);
  for (Source& s : sources) s.weight /= total;
}

}  // namespace

// ---- forward -----------------------------------------------------------------------------------------------------

const float* depth_read(float* h, const DepthSums& sums, const float* x, const DepthQuery& p, const StreamRows& rows) {
  const int N = rows.N, C = rows.C;
  if (!p.query) {
    copy_rows(h, x, N, C);
    return h;
  }
  const std::vector<float> q = query_of(p, C);
  parallel_for(N, 1, 3 * plane(p.sums + 1, C), [&](int begin, int end) {
    std::vector<Source> sources(p.sums + 1);
    std::vector<float> factors(p.sums + 1);
    for (int n = begin; n < end; ++n) {
      weigh(sources, sums, x, q.data(), p, n, C);
      for (int j = 0; j <= p.sums; ++j)
        factors[j] = static_cast<float>(sources[j].weight * (p.normed ? sources[j].r : 1));
      sweep(C, [&](int c, int lanes) {
        Vec sum = {};
        for (int j = 0; j <= p.sums; ++j) sum = multiply_add(sum, all(factors[j]), load(sources[j].v + c, lanes));
        store(h + plane(n, C) + c, sum, lanes);
      });
    }
  });
  return h;
}

// ---- backward ----------------------------------------------------------------------------------------------------

namespace {

// dv = dh_factor·dh + q_factor·q + v_factor·v, and dq += q_factor·v.
struct Factors {
  float dh, q, v;
};

// The factors of one row.
void factors_of(std::vector<Factors>& factors, const std::vector<Source>& sources, const float* dh,
                const DepthQuery& p, int C) {
  std::vector<double> dweight(sources.size());
  double mean = 0;  // Σ α·dα
  for (size_t j = 0; j < sources.size(); ++j) {
    const Source& s = sources[j];
    dweight[j] = simd::dot(dh, s.v, C) * (p.normed ? s.r : 1);  // h = Σ α·v, or Σ α·r·v
    mean += s.weight * dweight[j];
  }
  for (size_t j = 0; j < sources.size(); ++j) {
    const Source& s = sources[j];
    const double dz = s.weight * (dweight[j] - mean);                           // α = softmax(z)
    const double through_r = dz * s.z + (p.normed ? s.weight * dweight[j] : 0);  // r·dr, which z and r·v depend on
    factors[j] = {static_cast<float>(s.weight * (p.normed ? s.r : 1)), static_cast<float>(dz * s.r),
                  static_cast<float>(-through_r * s.r * s.r / C)};
  }
}

// How the gradients of the sources are written: d = base_factor·base + dv for x; those of the other sums are
// overwritten or added to.
struct Target {
  float* d;
  const float* base;
  float base_factor;
  bool overwrite;
};

void sources_backward(const Target& target, const DepthQuery& g, const DepthSums& sums, const float* dh,
                      const float* x, const DepthQuery& p, const StreamRows& rows) {
  const int N = rows.N, C = rows.C, blocks = row_blocks(N);
  const std::vector<float> q = query_of(p, C);
  std::vector<float> partial(plane(blocks, C)), dq(C);
  parallel_for(N, kRowBlock, 6 * plane(p.sums + 1, C), [&](int begin, int end) {
    std::vector<Source> sources(p.sums + 1);
    std::vector<Factors> factors(p.sums + 1);
    for (int n = begin; n < end; ++n) {
      const size_t row = plane(n, C);
      float* sum = &partial[plane(n / kRowBlock, C)];
      weigh(sources, sums, x, q.data(), p, n, C);
      factors_of(factors, sources, dh + row, p, C);
      sweep(C, [&](int c, int lanes) {
        const Vec dh_c = load(dh + row + c, lanes), q_c = load(&q[c], lanes);
        Vec dq_c = load(sum + c, lanes);
        for (int j = 0; j <= p.sums; ++j) {
          const Vec v = load(sources[j].v + c, lanes);
          const Vec dv = factors[j].dh * dh_c + factors[j].q * q_c + factors[j].v * v;
          dq_c = multiply_add(dq_c, all(factors[j].q), v);  // z = r·⟨q, v⟩
          float* to = j < p.sums ? sums.d + j * plane(N, C) + row + c : target.d + row + c;
          if (j == p.sums) store(to, target.base_factor * load(target.base + row + c, lanes) + dv, lanes);
          else store(to, target.overwrite ? dv : load(to, lanes) + dv, lanes);
        }
        store(sum + c, dq_c, lanes);
      });
    }
  });
  add_column_sums(dq.data(), partial.data(), blocks, C);
  for (int c = 0; c < C; ++c) {  // q = scale·w ⊙ gain
    if (g.query) g.query[c] += p.scale * gain_at(p.norm, c) * dq[c];
    if (g.norm.gain) g.norm.gain[c] += p.scale * p.query[c] * dq[c];
  }
}

}  // namespace

void depth_read_backward(float* d, const DepthQuery& g, const DepthSums& sums, const float* dh, const float* x,
                         const DepthQuery& p, float skip, const StreamRows& rows) {
  const float* later = p.begins ? sums.d + p.sums * plane(rows.N, rows.C) : nullptr;  // what later branches have read
  if (!p.query) return scaled_add(d, 1, later, dh, rows.N, rows.C);
  sources_backward({d, later ? later : d, later ? 1 : skip, false}, g, sums, dh, x, p, rows);
}

void depth_end_backward(float* d, const DepthQuery& g, const DepthSums& sums, const float* x, const DepthQuery& p,
                        const StreamRows& rows) {
  sources_backward({d, d, 0, true}, g, sums, d, x, p, rows);
}
