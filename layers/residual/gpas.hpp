#pragma once
// Gradient-preserving activation scaling (GPAS, Chen et al. 2025, arXiv 2506.22049): a learned factor on the stream
// after a branch, which the gradient of the stream does not see.
//
//   s, y (N,C)   g one number
//   forward   y  = s − SiLU(g)·stop_gradient(s) = (1 − SiLU(g))·s          SiLU(g) = g·σ(g)
//   backward  ds = dy      dg −= SiLU'(g)·Σ dy ⊙ s
//   saves     nothing: the caller still holds s
//
// stop_gradient is the identity with the derivative 0, so backward is not the derivative of (1 − SiLU(g))·s.

#include "layers/config/tensors.hpp"

// Parameters, or their gradients. An absent gate is the identity and costs nothing.
struct Gpas {
  float* gate = nullptr;  // g

  bool present() const { return gate != nullptr; }
};
Gpas declare_gpas(Layout& layout);

// Writes y. y may be s.
void gpas_forward(float* y, const float* s, const Gpas& p, int N, int C);

// Adds to dg. ds is dy itself.
void gpas_backward(const Gpas& g, const float* dy, const float* s, const Gpas& p, int N, int C);
