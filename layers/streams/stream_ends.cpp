#include "stream_ends.hpp"

#include "layers/kernels/elementwise.hpp"
#include "layers/kernels/parallel.hpp"
#include "planes.hpp"

namespace {

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

void streams_begin(float* streams, const float* x, int S, int N, int C) {
  for (int s = 0; s < S; ++s) copy_rows(streams + s * plane(N, C), x, N, C);
}

void streams_begin_backward(float* d, int S, int N, int C) {
  if (S > 1) add_planes(d, d, S, N, C);
}

StreamsEnd declare_streams_end(Layout& layout, const Config& config, int N) {
  StreamsEnd end;
  end.rule = stream_rule(config);
  end.count = stream_count(config);
  if (mixes(end.rule)) end.sum = layout.take("streams.sum", Role::streams, {N, config.channels});
  if (*config.final_norm) end.norm = declare_norm_saved(layout, config, "final_norm", N, config.channels);
  if (*config.final_norm || end.rule == StreamRule::dual)
    end.h = layout.take("final_norm", Role::norm, {N, config.channels});
  return end;
}

const float* before_final_norm(const StreamsEnd& end, const float* x, int N, int C) {
  if (end.sum) return end.sum;
  return end.rule == StreamRule::dual ? x + plane(N, C) : x;
}

const float* streams_end(const StreamsEnd& end, const float* x, const Norm& norm, int N, int C, bool training) {
  if (end.sum) add_planes(end.sum, x, end.count, N, C);
  const float* h = norm_forward(end.h, end.norm, before_final_norm(end, x, N, C), norm, N, C, training);
  if (end.rule != StreamRule::dual) return h;
  scaled_add(end.h, 1, x, h, N, C);
  return end.h;
}

void streams_end_backward(float* d, const Norm& g, const float* x, const StreamsEnd& end, const Norm& norm, int N,
                          int C) {
  const float* in = before_final_norm(end, x, N, C);
  if (end.rule == StreamRule::dual) {  // h = x[0] + norm(x[1])
    float* second = d + plane(N, C);
    if (norm_backward(second, g, d, in, end.norm, norm, N, C) != second) copy_rows(second, d, N, C);
    return;
  }
  norm_backward(d, g, d, in, end.norm, norm, N, C);
  for (int s = 1; s < end.count; ++s) copy_rows(d + s * plane(N, C), d, N, C);  // sum = Σₛ x[s]
}
