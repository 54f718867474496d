#include "stream_ends.hpp"

#include "gated.hpp"
#include "layers/kernels/elementwise.hpp"
#include "layers/kernels/parallel.hpp"
#include "mhc.hpp"
#include "planes.hpp"
#include "two_streams.hpp"

namespace {

bool has_read(const Config& config) { return config.placement_row->stream_end == StreamEnd::read; }

// Without tensors.
Streams end_read(const Config& config) {
  Streams p = streams_of(config);
  p.kinds = p.rule == StreamRule::gated ? 0 : 1;
  return p;
}

// sum = Σₛ x[s], in the order of s; sum may be x[0].
void add_planes(float* sum, const float* x, int S, int N, int C) {
  parallel_for(N, 1, plane(S, C), [&](int begin, int end) {
    for (size_t i = plane(begin, C); i < plane(end, C); ++i) {
      float total = x[i];
      for (int s = 1; s < S; ++s) total += x[s * plane(N, C) + i];
      sum[i] = total;
    }
  });
}

}  // namespace

// ---- declarations ----------------------------------------------------------------------------------------------

void declare_first_norm(EndNorms& p, Layout& layout, const Config& config) {
  if (stream_rule(config) == StreamRule::siamese)
    p.first_norm = declare_norm(layout, config, "streams.first_norm", config.channels);
}

void declare_last_norms(EndNorms& p, Layout& layout, const Config& config) {
  if (stream_rule(config) == StreamRule::siamese)
    p.second_norm = declare_norm(layout, config, "streams.second_norm", config.channels);
  if (is_attnres(stream_rule(config)))
    p.depth = declare_depth(layout, config, "streams", config.branches() * config.n_layer);
  if (mixes(stream_rule(config))) p.read = end_read(config);
  if (p.read.rule == StreamRule::gated) declare_gated(p.read, layout, config, "streams");
  else if (has_read(config)) declare_mhc(p.read, layout, config, "streams");
  if (*config.final_norm) p.final_norm = declare_norm(layout, config, "final_norm", config.channels);
}

StreamsEnd declare_streams_end(Layout& layout, const Config& config, int N) {
  const int C = config.channels;
  StreamsEnd end;
  end.rule = stream_rule(config);
  end.count = stream_count(config);
  end.form = config.placement_row->stream_end;
  if (end.rule == StreamRule::gated) {
    declare_gated_saved(end.read, layout, config, "streams", end_read(config), N);
  } else if (has_read(config)) {
    end.read.z = layout.take("streams.z", Role::streams, {end.count, N});
    end.read.rstd = layout.take("streams.rstd", Role::streams, {N});
    end.coefficients = layout.take("streams.coefficients", Role::streams, {end.count, N});
  }
  if ((end.count > 1 && end.rule != StreamRule::dual) || is_attnres(end.rule) || has_read(config))
    end.sum = layout.take("streams.sum", Role::streams, {N, C});
  if (end.rule == StreamRule::siamese)
    end.second_norm = declare_norm_saved(layout, config, "streams.second_norm", N, C);
  if (*config.final_norm) end.norm = declare_norm_saved(layout, config, "final_norm", N, C);
  if (*config.final_norm || end.rule == StreamRule::dual) end.h = layout.take("final_norm", Role::norm, {N, C});
  return end;
}

// ---- begin -----------------------------------------------------------------------------------------------------

void streams_begin(float* streams, const NormSaved& saved, const float* x, const EndNorms& p, int S,
                   const StreamRows& rows) {
  const auto [N, C, training] = rows;
  for (int s = 0; s < S; ++s) copy_rows(streams + s * plane(N, C), x, N, C);
  norm_forward(streams, saved, x, p.first_norm, N, C, training);
}

void streams_begin_backward(float* d, const EndNorms& g, const NormSaved& saved, const float* x,
                            const EndNorms& p, int S, const StreamRows& rows) {
  const int N = rows.N, C = rows.C;
  norm_backward(d, g.first_norm, d, x, saved, p.first_norm, N, C);
  if (S > 1) add_planes(d, d, S, N, C);
}

// ---- end -------------------------------------------------------------------------------------------------------

double multiply_adds_of_end(const Config& config) {
  const double S = stream_count(config), C = config.channels;
  if (stream_rule(config) == StreamRule::gated)
    return multiply_adds_of_gates(end_read(config), config.channels) + S * C;
  return has_read(config) ? S * (S + 1) * C : 0;
}

const float* before_final_norm(const StreamsEnd& end, const float* x, int N, int C) {
  if (end.sum) return end.sum;
  return end.rule == StreamRule::dual ? x + plane(N, C) : x;
}

namespace {

// sum = Σₛ x[s], its mean, or what a branch would read.
void end_of_mixed(const StreamsEnd& end, const float* x, const Streams& read, const StreamRows& rows) {
  const int N = rows.N, C = rows.C;
  if (end.form != StreamEnd::read) {
    add_planes(end.sum, x, end.count, N, C);
    return scale_rows(end.sum, end.factor(), N, C);
  }
  if (end.rule == StreamRule::gated) return gated_read(end.read, end.scratch, end.sum, x, read, rows);
  mhc_read(end.read, x, read, N, C);
  mhc_coefficients(end.coefficients, end.read.z, read, N);
  read_streams(end.sum, end.coefficients, x, read, N, C);
}

// The first plane of d holds dsum; d gets the gradients of all streams.
void end_of_mixed_backward(float* d, const Streams& g, const float* x, const StreamsEnd& end, const Streams& read,
                           const StreamRows& rows) {
  const int N = rows.N, C = rows.C;
  if (end.form != StreamEnd::read) {
    scale_rows(d, end.factor(), N, C);
    for (int s = 1; s < end.count; ++s) copy_rows(d + s * plane(N, C), d, N, C);  // sum = factor·Σₛ x[s]
    return;
  }
  if (end.rule == StreamRule::gated)
    return gated_read_backward(d, g, end.scratch, d, x, end.read, read, rows);
  StreamsScratch scratch;
  scratch.coefficients = scratch.d = end.coefficients;
  read_end_backward(d, scratch, x, read, N, C);
  mhc_read_backward(d, g, scratch, x, end.read, read, N, C);
}

}  // namespace

const float* streams_end(const StreamsEnd& end, const float* x, const EndNorms& p, const StreamRows& rows) {
  const auto [N, C, training] = rows;
  if (end.rule == StreamRule::dual) return read_two(end.h, end.norm, x, p.final_norm, rows);
  if (end.rule == StreamRule::siamese) read_two(end.sum, end.second_norm, x, p.second_norm, rows);
  else if (is_attnres(end.rule)) depth_read(end.sum, end.scratch.depth, x, p.depth, rows);
  else if (end.sum) end_of_mixed(end, x, p.read, rows);
  return norm_forward(end.h, end.norm, before_final_norm(end, x, N, C), p.final_norm, N, C, training);
}

namespace {

// h = x[0] + norm(x[1]): the first plane of d holds dh, which is dx[0]. Writes dx[1].
void second_backward(float* d, const Norm& g, const float* x, const NormSaved& saved, const Norm& norm,
                     const StreamRows& rows) {
  const int N = rows.N, C = rows.C;
  float* second = d + plane(N, C);
  if (norm_backward(second, g, d, x + plane(N, C), saved, norm, N, C) != second) copy_rows(second, d, N, C);
}

}  // namespace

void streams_end_backward(float* d, const EndNorms& g, const float* x, const StreamsEnd& end, const EndNorms& p,
                          const StreamRows& rows) {
  const int N = rows.N, C = rows.C;
  if (end.rule == StreamRule::dual) return second_backward(d, g.final_norm, x, end.norm, p.final_norm, rows);
  norm_backward(d, g.final_norm, d, before_final_norm(end, x, N, C), end.norm, p.final_norm, N, C);
  if (end.rule == StreamRule::siamese)
    return second_backward(d, g.second_norm, x, end.second_norm, p.second_norm, rows);
  if (is_attnres(end.rule)) return depth_end_backward(d, g.depth, end.scratch.depth, x, p.depth, rows);
  if (end.sum) end_of_mixed_backward(d, g.read, x, end, p.read, rows);
}
