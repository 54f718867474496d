#include "stream_projection.hpp"

#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"
#include "planes.hpp"

namespace {

constexpr int kColumnsTogether = 64;

// z, the weight and x as the three products of a stream take them: rows of z and of the weight, and how far the rows of
// the weight are apart. The streams of hyper have the same weight and rows of their own.
struct Product {
  int rows;
  size_t from_z, from_weight, stride;  // of stream s the first two s times
};
Product product_of(const Streams& p, int N, int C) {
  if (p.rule == StreamRule::mhc) return {p.coefficients(), 0, size_t(C), plane(p.count, C)};
  return {p.count + 2, plane(p.count + 2, N), 0, size_t(C)};
}

}  // namespace

void project(float* z, const float* x, const Streams& p, int N, int C) {
  const Product product = product_of(p, N, C);
  parallel_for(N, kRowsTogether, plane(p.coefficients(), C), [&](int begin, int end) {
    for (int s = 0; s < p.count; ++s)
      gemm_serial(z + s * product.from_z + begin, N, {p.weight + s * product.from_weight, product.stride, 1},
                  {x + s * plane(N, C) + plane(begin, C), 1, size_t(C)}, product.rows, end - begin, C,
                  product.from_z == 0 && s > 0);
  });
}

void project_backward_weight(float* dweight, const float* dz, const float* x, const Streams& p, int N, int C) {
  if (!dweight) return;
  const Product product = product_of(p, N, C);
  parallel_for(C, kColumnsTogether, plane(p.coefficients(), N), [&](int begin, int end) {
    for (int s = 0; s < p.count; ++s)
      gemm_serial(dweight + s * product.from_weight + begin, product.stride, {dz + s * product.from_z, size_t(N), 1},
                  {x + s * plane(N, C) + begin, size_t(C), 1}, product.rows, end - begin, N, true);
  });
}

void project_backward(float* dx, const float* dz, const Streams& p, int N, int C, bool accumulate) {
  const Product product = product_of(p, N, C);
  parallel_for(N, kRowsTogether, plane(p.coefficients(), C), [&](int begin, int end) {
    for (int s = 0; s < p.count; ++s)
      gemm_serial(dx + s * plane(N, C) + plane(begin, C), C, {dz + s * product.from_z + begin, 1, size_t(N)},
                  {p.weight + s * product.from_weight, product.stride, 1}, end - begin, C, product.rows, accumulate);
  });
}
