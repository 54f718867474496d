#include "two_streams.hpp"

#include "layers/kernels/elementwise.hpp"
#include "layers/kernels/parallel.hpp"
#include "planes.hpp"

const float* read_two(float* h, const NormSaved& saved, const float* x, const Norm& norm, const StreamRows& rows) {
  const auto [N, C, training] = rows;
  const float* second = norm_forward(h, saved, x + plane(N, C), norm, N, C, training);
  scaled_add(h, 1, x, second, N, C);
  return h;
}

void read_second_backward(float* d, const Norm& g, float* dh, const float* x, const NormSaved& saved, const Norm& norm,
                          const StreamRows& rows) {
  const int N = rows.N, C = rows.C;
  float* second = d + plane(N, C);
  const float* dx = norm_backward(dh, g, dh, x + plane(N, C), saved, norm, N, C);
  scaled_add(second, 1, second, dx, N, C);
}

void write_first(float* y, const float* x, const float* f, const Streams& p, const StreamRows& rows) {
  parallel_for(rows.N, 1, rows.C, [&](int begin, int end) {
    for (size_t i = plane(begin, rows.C); i < plane(end, rows.C); ++i) y[i] = p.skip * x[i] + p.first_write * f[i];
  });
}
