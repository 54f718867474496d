#include "output_gate.hpp"

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

using simd::all;
using simd::load;
using simd::store;
using simd::Vec;

namespace {

constexpr size_t kSigmoid = 20;  // operations

// Calls f(first number, its gate in z) for every head of every row. If elementwise, a head is the whole row.
template <class F>
void each_head(int N, int heads, int width, F f) {
  parallel_for(N, 1, kSigmoid * heads * width, [&](int begin, int end) {
    for (size_t head = static_cast<size_t>(begin) * heads; head < static_cast<size_t>(end) * heads; ++head)
      f(head * width, head);
  });
}

void headwise_forward(float* y, const float* h, const float* z, int N, int H, int D) {
  each_head(N, H, D, [=](size_t at, size_t head) {
    const Vec gate = simd::sigmoid(all(z[head]));
    simd::sweep(D, [=](int i, int lanes) { store(y + at + i, gate * load(h + at + i, lanes), lanes); });
  });
}

void headwise_backward(float* d, float* dz, const float* h, const float* z, int N, int H, int D) {
  each_head(N, H, D, [=](size_t at, size_t head) {
    const Vec gate = simd::sigmoid(all(z[head]));
    Vec sum = {};
    simd::sweep(D, [&](int i, int lanes) {
      const Vec dy = load(d + at + i, lanes);
      sum += dy * load(h + at + i, lanes);
      store(d + at + i, gate * dy, lanes);
    });
    dz[head] = static_cast<float>(simd::sum(sum)) * gate[0] * (1 - gate[0]);
  });
}

void elementwise_forward(float* y, const float* h, const float* z, int N, int width) {
  each_head(N, 1, width, [=](size_t at, size_t) {
    simd::sweep(width, [=](int i, int lanes) {
      store(y + at + i, simd::sigmoid(load(z + at + i, lanes)) * load(h + at + i, lanes), lanes);
    });
  });
}

void elementwise_backward(float* d, float* dz, const float* h, const float* z, int N, int width) {
  each_head(N, 1, width, [=](size_t at, size_t) {
    simd::sweep(width, [=](int i, int lanes) {
      const Vec gate = simd::sigmoid(load(z + at + i, lanes)), dy = load(d + at + i, lanes);
      store(dz + at + i, dy * load(h + at + i, lanes) * gate * (1.f - gate), lanes);
      store(d + at + i, gate * dy, lanes);
    });
  });
}

}  // namespace

void output_gate_forward(float* y, const float* h, const float* z, int N, int H, int D, bool headwise) {
  headwise ? headwise_forward(y, h, z, N, H, D) : elementwise_forward(y, h, z, N, H * D);
}

void output_gate_backward(float* d, float* dz, const float* h, const float* z, int N, int H, int D, bool headwise) {
  headwise ? headwise_backward(d, dz, h, z, N, H, D) : elementwise_backward(d, dz, h, z, N, H * D);
}
