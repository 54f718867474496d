#include "streams.hpp"

#include "gated.hpp"
#include "hyper_connections.hpp"
#include "layers/config/base_model.hpp"
#include "layers/kernels/elementwise.hpp"
#include "mhc.hpp"
#include "layers/kernels/reductions.hpp"
#include "planes.hpp"
#include "sphere.hpp"
#include "two_streams.hpp"

// ---- declarations ----------------------------------------------------------------------------------------------

int stream_count(const Config& config) {
  const StreamRule rule = stream_rule(config);
  if (is_one(rule) || is_attnres(rule)) return 1;
  return is_pair(rule) ? 2 : config.streams;
}

Streams streams_of(const Config& config) {
  Streams p;
  p.rule = stream_rule(config);
  p.count = stream_count(config);
  p.kinds = has_carry(p.rule) ? 3 : p.rule == StreamRule::gated ? 1 : 2;
  if (p.rule == StreamRule::gated) p.rank = config.gated_residual_rank;
  return p;
}

double multiply_adds_of_mixing(const Config& config) {
  const double S = stream_count(config), C = config.channels;
  if (is_attnres(stream_rule(config))) return sums_read(config) * C;
  if (stream_rule(config) == StreamRule::gated) return 2 * S * C;
  return mixes(stream_rule(config)) ? streams_of(config).coefficients() * C : 0;
}

double multiply_adds_of_coefficients(const Config& config) {
  const double mixing = multiply_adds_of_mixing(config);
  switch (stream_rule(config)) {
    case StreamRule::hyper: case StreamRule::attnres: case StreamRule::attnres_normed: return mixing;
    case StreamRule::mhc: case StreamRule::independent: return stream_count(config) * mixing;
    case StreamRule::gated: return multiply_adds_of_gates(streams_of(config), config.channels);
    default: return 0;
  }
}

double multiply_adds_of_streams(const Config& config) {
  const double norms = is_attnres(stream_rule(config)) ? multiply_adds_of_mixing(config) : 0;
  return multiply_adds_of_mixing(config) + multiply_adds_of_coefficients(config) + norms;
}

Streams declare_streams(Layout& layout, const Config& config, const std::string& name, int branch) {
  Streams p = streams_of(config);
  p.skip = static_cast<float>(*config.skip_scale);
  const std::string prefix = name + ".streams";
  if (p.rule == StreamRule::siamese) {
    p.norm = declare_norm(layout, config, prefix + ".second_norm", config.channels);
    const int layer = base_layer(config, branch / config.branches());
    p.first_write = static_cast<float>(config.placement_row->first_write(layer));
  }
  if (is_attnres(p.rule)) {
    p.depth = declare_depth(layout, config, prefix, branch);
    if (p.depth.begins) p.skip = 0;
  }
  if (p.rule == StreamRule::sphere) declare_sphere(p, layout, config, prefix);
  if (!p.mixes()) return p;
  if (is_hyper(p.rule)) declare_hyper(p, layout, config, prefix, branch);
  else if (p.rule == StreamRule::gated) declare_gated(p, layout, config, prefix);
  else declare_mhc(p, layout, config, prefix);
  return p;
}

StreamsSaved declare_streams_saved(Layout& layout, const Config& config, const std::string& name, int N) {
  const Streams p = streams_of(config);
  StreamsSaved saved;
  if (is_one(p.rule) || p.rule == StreamRule::dual) return saved;
  const std::string prefix = name + ".streams";
  saved.h = layout.take(prefix + ".h", Role::streams, {N, config.channels});
  if (p.rule == StreamRule::siamese)
    saved.norm = declare_norm_saved(layout, config, prefix + ".second_norm", N, config.channels);
  if (p.rule == StreamRule::gated) declare_gated_saved(saved, layout, config, prefix, p, N);
  if (!p.mixes() || p.rule == StreamRule::hyper_static || p.rule == StreamRule::gated) return saved;
  saved.z = layout.take(prefix + ".z", Role::streams, {p.coefficients(), N});
  if (is_hyper(p.rule))
    saved.norm = declare_norm_saved(layout, config, prefix + ".norm", p.count * N, config.channels);
  else saved.rstd = layout.take(prefix + ".rstd", Role::streams, {N});
  return saved;
}

StreamsScratch declare_streams_scratch(Layout& layout, const Config& config, int N, bool backward) {
  const Streams p = streams_of(config);
  StreamsScratch scratch;
  if (p.rule == StreamRule::sphere && backward)
    scratch.rates = layout.take("scratch.rates", Role::scratch, {row_blocks(N), config.channels});
  if (is_attnres(p.rule) && backward) scratch.depth.d = declare_sum_gradients(layout, config, N);
  if (!p.mixes()) return scratch;
  scratch.coefficients = layout.take("scratch.coefficients", Role::scratch, {p.coefficients(), N});
  if (backward) scratch.d = layout.take("scratch.coefficients.gradient", Role::scratch, {p.coefficients(), N});
  const std::vector<int> wide = {p.count * N, config.channels};
  const bool gated = p.rule == StreamRule::gated;
  if (p.rule == StreamRule::hyper || gated) scratch.wide = layout.take("scratch.streams", Role::scratch, wide);
  if (!gated) return scratch;
  scratch.gates = layout.take("scratch.gates", Role::scratch, wide);
  scratch.hidden = layout.take("scratch.gates.hidden", Role::scratch, {p.rank, N});
  if (!backward) return scratch;
  scratch.dwide = layout.take("scratch.streams.gradient", Role::scratch, wide);
  scratch.dz = layout.take("scratch.gates.gradient", Role::scratch, {p.rows(), N});
  return scratch;
}

// ---- reading and writing -----------------------------------------------------------------------------------------

void stream_coefficients(float* coefficients, const StreamsSaved& saved, const Streams& p, int N) {
  if (is_hyper(p.rule)) hyper_coefficients(coefficients, saved.z, p, N);
  else if (p.rule == StreamRule::gated) gated_coefficients(coefficients, saved.z, p, N);
  else mhc_coefficients(coefficients, saved.z, p, N);
}

const float* streams_read(const StreamsSaved& saved, const StreamsScratch& scratch, const float* x, const Streams& p,
                          const StreamRows& rows) {
  if (p.rule == StreamRule::siamese) return read_two(saved.h, saved.norm, x, p.norm, rows);
  if (is_attnres(p.rule)) return depth_read(saved.h, scratch.depth, x, p.depth, rows);
  if (!p.mixes()) return x;
  const auto [N, C, training] = rows;
  if (p.rule == StreamRule::gated) {
    gated_read(saved, scratch, saved.h, x, p, rows);
    gated_coefficients(scratch.coefficients, saved.z, p, N);
    return saved.h;
  }
  if (is_hyper(p.rule)) hyper_read(saved, scratch, x, p, N, C, training);
  else mhc_read(saved, x, p, N, C);
  stream_coefficients(scratch.coefficients, saved, p, N);
  read_streams(saved.h, scratch.coefficients, x, p, N, C);
  return saved.h;
}

void streams_write(float* y, float* first, const StreamsScratch& scratch, const float* x, const float* f,
                   const Streams& p, const StreamRows& rows) {
  const int N = rows.N, C = rows.C;
  if (p.rule == StreamRule::sphere) return sphere_write(y, x, f, p, N, C);
  if (p.mixes()) return write_streams(y, scratch.coefficients, x, f, p, N, C);
  const size_t second = plane(N, C);
  if (is_pair(p.rule)) scaled_add(y + second, p.skip, x + second, f, N, C);
  if (p.rule == StreamRule::siamese) return write_first(first, x, f, p, rows);
  scaled_add(first, p.skip, x, f, N, C);
}

const float* streams_write_backward(float* d, float* df, const StreamsScratch& scratch, const float* x, const float* f,
                                    const StreamsSaved& saved, const Streams& p, const StreamRows& rows) {
  const int N = rows.N, C = rows.C;
  if (p.rule == StreamRule::single || is_attnres(p.rule)) return d;  // y = skip·x + f
  if (p.rule == StreamRule::sphere) {
    sphere_write_backward(d, df, scratch.rates, x, f, p, N, C);
    return df;
  }
  if (is_pair(p.rule)) {
    float* second = d + plane(N, C);
    scaled_add(df, p.first_write, d, second, N, C);  // y[0] = ... + first_write·f, y[1] = ... + f
    scale_rows(second, p.skip, N, C);                // y[1] = skip·x[1] + f
    return df;
  }
  stream_coefficients(scratch.coefficients, saved, p, N);
  write_streams_backward(d, df, scratch, x, f, p, N, C);
  return df;
}

void streams_read_backward(float* d, const Streams& g, const StreamsScratch& scratch, float* dh, const float* x,
                           const StreamsSaved& saved, const Streams& p, const StreamRows& rows) {
  const int N = rows.N, C = rows.C;
  if (is_attnres(p.rule)) return depth_read_backward(d, g.depth, scratch.depth, dh, x, p.depth, p.skip, rows);
  if (p.rule == StreamRule::sphere) {
    sphere_rate_backward(g.rate, scratch.rates, p, N, C);
    return scaled_add(d, 1, d, dh, N, C);  // y = sphere(x, F(x))
  }
  if (!p.mixes()) scaled_add(d, p.skip, d, dh, N, C);  // y = skip·x + F(x)
  if (p.rule == StreamRule::siamese)                   // h = x[0] + norm(x[1])
    read_second_backward(d, g.norm, dh, x, saved.norm, p.norm, rows);
  if (!p.mixes()) return;
  if (p.rule == StreamRule::gated) return gated_read_backward(d, g, scratch, dh, x, saved, p, rows);
  read_streams_backward(d, scratch, dh, x, p, N, C);
  if (is_hyper(p.rule)) hyper_read_backward(d, g, scratch, x, saved, p, N, C);
  else mhc_read_backward(d, g, scratch, x, saved, p, N, C);
}
