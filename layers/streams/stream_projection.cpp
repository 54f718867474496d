#include "stream_projection.hpp"

#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"
#include "planes.hpp"

namespace {

constexpr int kColumnsTogether = 64;

// Where one stream's products find z and the weight: the number of their rows, and the stride of the weight's rows.
// Hyper's streams share the weight, but each has its own rows of z.
struct Product {
  int rows;
  size_t from_z, from_weight, stride;  // stream s begins at s·from_z and s·from_weight
};
Product product_of(const Streams& p, int N, int C) {
  if (p.rule == StreamRule::hyper) return {p.count + 2, plane(p.count + 2, N), 0, size_t(C)};
  return {p.rows(), 0, size_t(C), plane(p.count, C)};
}

}  // namespace

void project(float* z, const float* x, const Streams& p, int N, int C) {
  const Product product = product_of(p, N, C);
  parallel_for(N, kRowsTogether, plane(p.rows(), C), [&](int begin, int end) {
    for (int s = 0; s < p.count; ++s)
      gemm_serial({z + s * product.from_z + begin, size_t(N)}, {p.weight + s * product.from_weight, product.stride, 1},
                  {x + s * plane(N, C) + plane(begin, C), 1, size_t(C)}, product.rows, end - begin, C,
                  product.from_z == 0 && s > 0);
  });
}

void project_backward_weight(float* dweight, const float* dz, const float* x, const Streams& p, int N, int C) {
  if (!dweight) return;
  const Product product = product_of(p, N, C);
  parallel_for(C, kColumnsTogether, plane(p.rows(), N), [&](int begin, int end) {
    for (int s = 0; s < p.count; ++s)
      gemm_serial({dweight + s * product.from_weight + begin, product.stride}, {dz + s * product.from_z, size_t(N), 1},
                  {x + s * plane(N, C) + begin, size_t(C), 1}, product.rows, end - begin, N, true);
  });
}

void project_backward(float* dx, const float* dz, const Streams& p, int N, int C, bool accumulate) {
  const Product product = product_of(p, N, C);
  parallel_for(N, kRowsTogether, plane(p.rows(), C), [&](int begin, int end) {
    for (int s = 0; s < p.count; ++s)
      gemm_serial({dx + s * plane(N, C) + plane(begin, C), size_t(C)}, {dz + s * product.from_z + begin, 1, size_t(N)},
                  {p.weight + s * product.from_weight, product.stride, 1}, end - begin, C, product.rows, accumulate);
  });
}
