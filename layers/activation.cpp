#include "activation.hpp"

#include "parallel.hpp"
#include "simd.hpp"

using simd::all;
using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

constexpr float kSqrt2OverPi = 0.7978845608028654f;
constexpr float kSqrtHalf = 0.7071067811865476f;
constexpr float kInvSqrt2Pi = 0.3989422804014327f;

struct Gelu {
  static Vec y(Vec x) { return x * .5f * simd::erfc(-x * kSqrtHalf); }
  static Vec slope(Vec x) {
    const Vec gauss = simd::exp(-.5f * x * x);
    return .5f * simd::erfc(-x * kSqrtHalf, gauss) + x * kInvSqrt2Pi * gauss;
  }
};

struct GeluTanh {
  static Vec u(Vec x) { return kSqrt2OverPi * (x + .044715f * x * x * x); }
  static Vec y(Vec x) { return x * simd::sigmoid(2.f * u(x)); }
  static Vec slope(Vec x) {  // y = x·σ(2u): dy/dx = σ + x·2σ(1 − σ)·du/dx
    const Vec s = simd::sigmoid(2.f * u(x));
    return s + x * 2.f * s * (1.f - s) * kSqrt2OverPi * (1.f + 3 * .044715f * x * x);
  }
};

struct Relu {
  static Vec y(Vec x) { return x > 0.f ? x : all(0); }
  static Vec slope(Vec x) { return x > 0.f ? all(1) : all(0); }
};

// f(row) for every row; an exponential costs about twenty elementary operations.
template <class F>
void each_row(int N, int width, F f) {
  parallel_for(N, 1, 20 * static_cast<size_t>(width), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) f(static_cast<size_t>(n));
  });
}

template <class Kind>
void plain_forward(float* y, const float* x, int N, int F) {
  each_row(N, F, [=](size_t n) {
    sweep(F, [=](int i, int lanes) { store(y + n * F + i, Kind::y(load(x + n * F + i, lanes)), lanes); });
  });
}

template <class Kind>
void plain_backward(float* dx, const float* dy, const float* x, int N, int F) {
  each_row(N, F, [=](size_t n) {
    sweep(F, [=](int i, int lanes) {
      store(dx + n * F + i, load(dy + n * F + i, lanes) * Kind::slope(load(x + n * F + i, lanes)), lanes);
    });
  });
}

void swiglu_forward(float* y, const float* x, int N, int F) {
  each_row(N, F, [=](size_t n) {
    const float *gate = x + 2 * n * F, *up = gate + F;
    sweep(F, [=](int i, int lanes) {
      const Vec g = load(gate + i, lanes);
      store(y + n * F + i, g * simd::sigmoid(g) * load(up + i, lanes), lanes);
    });
  });
}

void swiglu_backward(float* dx, const float* dy, const float* x, int N, int F) {
  each_row(N, F, [=](size_t n) {
    const float *gate = x + 2 * n * F, *up = gate + F;
    float *dgate = dx + 2 * n * F, *dup = dgate + F;
    sweep(F, [=](int i, int lanes) {  // y = gate·σ·up, σ' = σ(1 − σ)
      const Vec g = load(gate + i, lanes), u = load(up + i, lanes), d = load(dy + n * F + i, lanes);
      const Vec s = simd::sigmoid(g);
      store(dgate + i, d * u * s * (1.f + g * (1.f - s)), lanes);
      store(dup + i, d * g * s, lanes);
    });
  });
}

}  // namespace

void activation_forward(float* y, const float* x, Activation kind, int N, int F) {
  switch (kind) {
    case Activation::gelu: return plain_forward<Gelu>(y, x, N, F);
    case Activation::gelu_tanh: return plain_forward<GeluTanh>(y, x, N, F);
    case Activation::relu: return plain_forward<Relu>(y, x, N, F);
    case Activation::swiglu: return swiglu_forward(y, x, N, F);
  }
}

void activation_backward(float* dx, const float* dy, const float* x, Activation kind, int N, int F) {
  switch (kind) {
    case Activation::gelu: return plain_backward<Gelu>(dx, dy, x, N, F);
    case Activation::gelu_tanh: return plain_backward<GeluTanh>(dx, dy, x, N, F);
    case Activation::relu: return plain_backward<Relu>(dx, dy, x, N, F);
    case Activation::swiglu: return swiglu_backward(dx, dy, x, N, F);
  }
}
