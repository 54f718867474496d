#pragma once
// The activation functions of the feed-forward layer.

#include "layers/config/config.hpp"
#include "number.hpp"

namespace textbook {

// ---- functions of one number ---------------------------------------------------------------------------------

// f(x) and f'(x)       Φ, φ: distribution function and density of the standard normal
//   gelu       f = x·Φ(x)                   f' = Φ(x) + x·φ(x)
//   gelu-tanh  f = ½x·(1 + tanh u)          f' = ½(1 + tanh u) + ½x·(1 − tanh² u)·du/dx
//              u = √(2/π)·(x + .044715 x³)  du/dx = √(2/π)·(1 + 3·.044715 x²)
//   relu       f = max(x, 0)                f' = 1 if x > 0
//   relu2      f = max(x, 0)²               f' = 2·max(x, 0)
//   silu       f = x·σ(x)                   f' = σ + x·σ(1 − σ)
// geglu, geglu-tanh and swiglu apply gelu, gelu-tanh and silu to their gate. swiglu-clamped has a curve of its own:
//   g = min(x, 7)    f = g·σ(1.702 g)       f' = σ + 1.702 g·σ(1 − σ), and 0 for x > 7

template <class Number>
struct Curve {
  Number y, slope;  // f and f'
};
template <class Number>
Curve<Number> curve(Number x, Activation kind) {
  const Number one = 1, half = .5, a = std::sqrt(2 / std::numbers::pi), b = .044715;
  if (kind == Activation::gelu || kind == Activation::geglu) {
    const Number distribution = half * (one + erf(x * Number(std::sqrt(.5))));
    const Number density = std::exp(-half * x * x) * Number(1 / std::sqrt(2 * std::numbers::pi));
    return {x * distribution, distribution + x * density};
  }
  if (kind == Activation::gelu_tanh || kind == Activation::geglu_tanh) {
    const Number tanh = std::tanh(a * (x + b * x * x * x)), du = a * (one + Number(3) * b * x * x);
    return {half * x * (one + tanh), half * (one + tanh) + half * x * (one - tanh * tanh) * du};
  }
  if (kind == Activation::relu) return std::real(x) <= 0 ? Curve<Number>{0, 0} : Curve<Number>{x, x / x};
  if (kind == Activation::relu2) return std::real(x) <= 0 ? Curve<Number>{0, 0} : Curve<Number>{x * x, Number(2) * x};
  if (kind == Activation::swiglu_clamped) {
    const bool beyond = std::real(x) > 7;
    const Number g = beyond ? Number(7) : x, steep = 1.702, s = one / (one + std::exp(-steep * g));
    return {g * s, beyond ? Number(0) : s + steep * g * s * (one - s)};
  }
  const Number sigmoid = one / (one + std::exp(-x));
  return {x * sigmoid, sigmoid + x * sigmoid * (one - sigmoid)};
}

// What f(gate) is multiplied by, and its derivative: up and 1. In swiglu-clamped it is up + 1, with up clamped to ±7.
template <class Number>
Curve<Number> factor(Number up, Activation kind) {
  if (kind != Activation::swiglu_clamped) return {up, 1};
  const double u = std::real(up);
  if (std::abs(u) > 7) return {u > 0 ? 8. : -6., 0};
  return {up + Number(1), 1};
}

// ---- the layer -----------------------------------------------------------------------------------------------

//   gelu, gelu-tanh, relu, relu2, silu  x (N,F) → y (N,F)
//     forward   y = f(x)
//     backward  dx = dy·f'(x)
//   the gated ones                      x (N,2F) = gate|up → y (N,F)
//     forward   y = f(gate)·up
//     backward  dup = dy·f(gate)        dgate = dy·up·f'(gate)
//   swiglu-clamped has factor(up) in place of up, and dup = dy·f(gate)·factor'(up)

template <class Number>
void activation_forward(Number* y, const Number* x, Activation kind, size_t N, size_t F) {
  const bool gated = is_gated(kind);
  for (size_t n = 0; n < N; ++n, y += F, x += gated ? 2 * F : F)
    for (size_t i = 0; i < F; ++i) y[i] = curve(x[i], kind).y * (gated ? factor(x[F + i], kind).y : Number(1));
}

template <class Number>
void activation_backward(Number* dx, const Number* dy, const Number* x, Activation kind, size_t N, size_t F) {
  const bool gated = is_gated(kind);
  for (size_t n = 0; n < N; ++n, dy += F, x += gated ? 2 * F : F, dx += gated ? 2 * F : F)
    for (size_t i = 0; i < F; ++i) {
      const auto [y, slope] = curve(x[i], kind);
      const Curve<Number> up = gated ? factor(x[F + i], kind) : Curve<Number>{1, 0};
      dx[i] = dy[i] * slope * up.y;                 // y = f(x), or f(gate)·up
      if (gated) dx[F + i] = dy[i] * y * up.slope;  // y = f(gate)·up
    }
}

}  // namespace textbook
