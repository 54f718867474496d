#pragma once
//   element by element, x (N,F) → y (N,F)
//   gelu       y = x·Φ(x)              dy/dx = Φ(x) + x·φ(x)       Φ, φ of the standard normal distribution
//   gelu-tanh  y = x·σ(2u)             u = √(2/π)(x + .044715 x³)   as ½(1 + tanh u) = σ(2u)
//   relu       y = max(x, 0)
//   relu2      y = max(x, 0)²          dy/dx = 2·max(x, 0)             (Primer: So et al. 2021, arXiv 2109.08668)
//   silu       y = x·σ(x)              dy/dx = σ + x·σ(1 − σ)
//     (relu: Nair & Hinton 2010; the others: Hendrycks & Gimpel 2016, arXiv 1606.08415)
//   gated, x (N,2F) = gate|up → y (N,F), y = f(gate)·up:  dup = dy·f(gate)   dgate = dy·up·f'(gate)
//   geglu, geglu-tanh, swiglu      f = gelu, gelu-tanh (Gemma), silu      (Shazeer 2020, arXiv 2002.05202, eq. 6)
//   swiglu-clamped                 y = f(g)·(u + 1), f(x) = x·σ(1.702 x), g = min(gate, 7), u = up clamped to ±7
//                                  beyond a limit the derivative is 0       (gpt-oss: OpenAI 2025, arXiv 2508.10925)
//   saves      nothing: the caller still holds x

#include "layers/config/config.hpp"

void activation_forward(float* y, const float* x, Activation kind, int N, int F);

// dx may be dy, unless the activation is gated: then dx is twice as wide.
void activation_backward(float* dx, const float* dy, const float* x, Activation kind, int N, int F);
