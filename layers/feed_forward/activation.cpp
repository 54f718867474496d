#include "activation.hpp"

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

using simd::all;
using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

constexpr float kSqrt2OverPi = 0.7978845608028654f;
constexpr float kSqrtHalf = 0.7071067811865476f;
constexpr float kInvSqrt2Pi = 0.3989422804014327f;

// The gradients of the two factors of y = up·f(x), from d = ∂L/∂y. `up` is 1 if the layer is not gated.
struct Pulled {
  Vec up, x;  // d·f(x), d·up·f'(x)
};

// With Q = 1 − Φ(|x|), x·Φ(x) = max(x, 0) − |x|·Q, which never cancels. |x| is clamped to 13.2, where e^(−x²/2) is
// still a normal float and Q is below 1e-38.
struct Gelu {
  struct Tail {
    Vec size, gauss, q;  // |x|, e^(−x²/2), Q
  };
  static Tail tail(Vec x) {
    const Vec size = simd::min(all(13.2f), simd::abs(x)), gauss = simd::exp_normal(-.5f * size * size);
    return {size, gauss, .5f * gauss * simd::scaled_erfc(size * kSqrtHalf)};
  }
  static Vec y(Vec x) {
    const Tail t = tail(x);
    return simd::max(all(0), x) - t.size * t.q;
  }
  static Pulled back(Vec d, Vec up, Vec x) {
    const Tail t = tail(x);
    const Vec area = x < 0.f ? t.q : 1.f - t.q;  // Φ(x)
    return {d * (x * area), d * up * (area + x * kInvSqrt2Pi * t.gauss)};
  }
};

struct GeluTanh {
  static Vec u(Vec x) { return kSqrt2OverPi * (x + .044715f * x * x * x); }
  static Vec y(Vec x) { return x * simd::sigmoid(2.f * u(x)); }
  static Pulled back(Vec d, Vec up, Vec x) {  // y = x·σ(2u): dy/dx = σ + x·2σ(1 − σ)·du/dx
    const Vec s = simd::sigmoid(2.f * u(x));
    return {d * (x * s), d * up * (s + x * 2.f * s * (1.f - s) * kSqrt2OverPi * (1.f + 3 * .044715f * x * x))};
  }
};

struct Relu {  // NaN fails every comparison and is kept
  static Vec y(Vec x) { return x <= 0.f ? all(0) : x; }
  static Pulled back(Vec d, Vec up, Vec x) { return {d * y(x), d * up * (x > 0.f ? all(1) : y(x))}; }
};

struct Relu2 {
  static Vec y(Vec x) { return Relu::y(x) * Relu::y(x); }
  static Pulled back(Vec d, Vec up, Vec x) { return {d * y(x), d * up * (2.f * Relu::y(x))}; }
};

struct Silu {
  static Vec y(Vec x) { return x * simd::sigmoid(x); }
  static Pulled back(Vec d, Vec up, Vec x) {  // y = x·σ, σ' = σ(1 − σ)
    const Vec s = simd::sigmoid(x);
    return {d * x * s, d * up * s * (1.f + x * (1.f - s))};
  }
};

// The SwiGLU of gpt-oss. NaN is kept, as above.
struct ClampedSilu {
  static constexpr float kSteep = 1.702f, kLimit = 7;
  static Vec y(Vec x) {
    const Vec gate = simd::min(all(kLimit), x);
    return gate * simd::sigmoid(kSteep * gate);
  }
  static Pulled back(Vec d, Vec up, Vec x) {
    const Vec gate = simd::min(all(kLimit), x), s = simd::sigmoid(kSteep * gate);
    const Vec slope = s * (1.f + kSteep * gate * (1.f - s));
    return {d * (gate * s), x > kLimit ? all(0) : d * up * slope};
  }
  static Vec factor(Vec up) { return simd::min(all(kLimit), simd::max(all(-kLimit), up)) + 1.f; }
  static Vec factor_slope(Vec up) { return simd::abs(up) > kLimit ? all(0) : all(1); }
};

// What f(gate) is multiplied by: `up`, unless the curve says otherwise.
template <class Curve>
Vec factor(Vec up) {
  if constexpr (requires { Curve::factor(up); }) return Curve::factor(up);
  else return up;
}

// Calls f(row) for every row. An exponential costs about twenty elementary operations.
template <class F>
void each_row(int N, int width, F f) {
  parallel_each(N, 20 * static_cast<size_t>(width), f);
}

template <class Curve>
void plain_forward(float* y, const float* x, int N, int F) {
  each_row(N, F, [=](size_t n) {
    sweep(F, [=](int i, int lanes) { store(y + n * F + i, Curve::y(load(x + n * F + i, lanes)), lanes); });
  });
}

template <class Curve>
void plain_backward(float* dx, const float* dy, const float* x, int N, int F) {
  each_row(N, F, [=](size_t n) {
    sweep(F, [=](int i, int lanes) {
      const Pulled d = Curve::back(load(dy + n * F + i, lanes), all(1), load(x + n * F + i, lanes));
      store(dx + n * F + i, d.x, lanes);
    });
  });
}

template <class Curve>
void gated_forward(float* y, const float* x, int N, int F) {
  each_row(N, F, [=](size_t n) {
    const float *gate = x + 2 * n * F, *up = gate + F;
    sweep(F, [=](int i, int lanes) {
      store(y + n * F + i, Curve::y(load(gate + i, lanes)) * factor<Curve>(load(up + i, lanes)), lanes);
    });
  });
}

template <class Curve>
void gated_backward(float* dx, const float* dy, const float* x, int N, int F) {
  each_row(N, F, [=](size_t n) {
    const float *gate = x + 2 * n * F, *up = gate + F;
    float *dgate = dx + 2 * n * F, *dup = dgate + F;
    sweep(F, [=](int i, int lanes) {
      const Vec u = load(up + i, lanes);
      Pulled d = Curve::back(load(dy + n * F + i, lanes), factor<Curve>(u), load(gate + i, lanes));
      if constexpr (requires { Curve::factor_slope(u); }) d.up *= Curve::factor_slope(u);
      store(dgate + i, d.x, lanes);
      store(dup + i, d.up, lanes);
    });
  });
}

// Calls f(curve) with the function that acts on x, or on the gate.
template <class F>
void with_curve(Activation kind, F f) {
  switch (kind) {
    case Activation::gelu:
    case Activation::geglu: return f(Gelu{});
    case Activation::gelu_tanh:
    case Activation::geglu_tanh: return f(GeluTanh{});
    case Activation::relu: return f(Relu{});
    case Activation::relu2: return f(Relu2{});
    case Activation::silu:
    case Activation::swiglu: return f(Silu{});
    case Activation::swiglu_clamped: return f(ClampedSilu{});
  }
}

}  // namespace

void activation_forward(float* y, const float* x, Activation kind, int N, int F) {
  with_curve(kind, [&]<class Curve>(Curve) {
    is_gated(kind) ? gated_forward<Curve>(y, x, N, F) : plain_forward<Curve>(y, x, N, F);
  });
}

void activation_backward(float* dx, const float* dy, const float* x, Activation kind, int N, int F) {
  with_curve(kind, [&]<class Curve>(Curve) {
    is_gated(kind) ? gated_backward<Curve>(dx, dy, x, N, F) : plain_backward<Curve>(dx, dy, x, N, F);
  });
}
