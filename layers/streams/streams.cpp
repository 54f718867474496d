#include "streams.hpp"

#include "hyper_connections.hpp"
#include "mhc.hpp"

// ---- declarations ----------------------------------------------------------------------------------------------

int stream_count(const Config& config) {
  const StreamRule rule = stream_rule(config);
  return rule == StreamRule::single ? 1 : rule == StreamRule::dual ? 2 : config.streams;
}

double multiply_adds_of_mixing(const Config& config) {
  const double S = stream_count(config), C = config.channels;
  return stream_rule(config) == StreamRule::single || stream_rule(config) == StreamRule::dual ? 0 : S * (S + 2) * C;
}

double multiply_adds_of_streams(const Config& config) {
  const double mixing = multiply_adds_of_mixing(config);
  switch (stream_rule(config)) {
    case StreamRule::hyper: return 2 * mixing;
    case StreamRule::mhc: return (1 + stream_count(config)) * mixing;
    default: return mixing;
  }
}

Streams declare_streams(Layout& layout, const Config& config, const std::string& name, int branch) {
  Streams p;
  p.rule = stream_rule(config), p.count = stream_count(config);
  if (!p.mixes()) return p;
  const std::string prefix = name + ".streams";
  if (p.rule == StreamRule::mhc) declare_mhc(p, layout, config, prefix);
  else declare_hyper(p, layout, config, prefix, branch);
  return p;
}

StreamsSaved declare_streams_saved(Layout& layout, const Config& config, const std::string& name, int N) {
  Streams p;
  p.rule = stream_rule(config), p.count = stream_count(config);
  StreamsSaved saved;
  if (!p.mixes()) return saved;
  const std::string prefix = name + ".streams";
  saved.h = layout.take(prefix + ".h", Role::streams, {N, config.channels});
  if (p.rule == StreamRule::hyper_static) return saved;
  saved.z = layout.take(prefix + ".z", Role::streams, {p.coefficients(), N});
  if (p.rule == StreamRule::mhc) saved.rstd = layout.take(prefix + ".rstd", Role::streams, {N});
  else saved.norm = declare_norm_saved(layout, config, prefix + ".norm", p.count * N, config.channels);
  return saved;
}

StreamsScratch declare_streams_scratch(Layout& layout, const Config& config, int N, bool backward) {
  Streams p;
  p.rule = stream_rule(config), p.count = stream_count(config);
  StreamsScratch scratch;
  if (!p.mixes()) return scratch;
  scratch.coefficients = layout.take("scratch.coefficients", Role::scratch, {p.coefficients(), N});
  if (backward) scratch.d = layout.take("scratch.coefficients.gradient", Role::scratch, {p.coefficients(), N});
  if (p.rule == StreamRule::hyper)
    scratch.wide = layout.take("scratch.streams", Role::scratch, {p.count * N, config.channels});
  return scratch;
}

// ---- reading and writing -----------------------------------------------------------------------------------------

void stream_coefficients(float* coefficients, const StreamsSaved& saved, const Streams& p, int N) {
  if (p.rule == StreamRule::mhc) mhc_coefficients(coefficients, saved.z, p, N);
  else hyper_coefficients(coefficients, saved.z, p, N);
}

const float* streams_read(const StreamsSaved& saved, const StreamsScratch& scratch, const float* x, const Streams& p,
                          int N, int C, bool training) {
  if (p.rule == StreamRule::mhc) mhc_read(saved, x, p, N, C);
  else hyper_read(saved, scratch, x, p, N, C, training);
  stream_coefficients(scratch.coefficients, saved, p, N);
  read_streams(saved.h, scratch.coefficients, x, p.count, N, C);
  return saved.h;
}

void streams_write(float* y, const StreamsScratch& scratch, float skip, const float* x, const float* f,
                   const Streams& p, int N, int C) {
  write_streams(y, scratch.coefficients, skip, x, f, p.count, N, C);
}

void streams_write_backward(float* d, float* df, const StreamsScratch& scratch, float skip, const float* x,
                            const float* f, const StreamsSaved& saved, const Streams& p, int N, int C) {
  stream_coefficients(scratch.coefficients, saved, p, N);
  write_streams_backward(d, df, scratch.d, scratch.coefficients, skip, x, f, p.count, N, C);
}

void streams_read_backward(float* d, const Streams& g, const StreamsScratch& scratch, const float* dh, const float* x,
                           const StreamsSaved& saved, const Streams& p, int N, int C) {
  read_streams_backward(d, scratch.d, scratch.coefficients, dh, x, p.count, N, C);
  if (p.rule == StreamRule::mhc) mhc_read_backward(d, g, scratch, x, saved, p, N, C);
  else hyper_read_backward(d, g, scratch, x, saved, p, N, C);
}
