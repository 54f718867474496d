#pragma once
//   x, y (N,C)   weight λ (C), or one number for all
//   forward   y  = s·λ ⊙ x
//   backward  dx = s·λ ⊙ dy      dλ += s·Σₙ dy ⊙ x; for one number, summed over the channels, too
//   saves     nothing: the caller still holds x
//
// A gain without a norm, on what a residual branch adds. LayerScale (Touvron et al. 2021, arXiv 2103.17239, eq. 4) has
// one for each channel, ReZero (Bachlechner et al. 2020, arXiv 2003.04887) one for a block.

#include <string>

#include "layers/config/tensors.hpp"

// Parameters, or their gradients. An absent gain is the identity and costs nothing.
struct Gain {
  float* weight = nullptr;
  bool single = false;  // one number
  float factor = 1;     // s

  bool present() const { return weight != nullptr; }
};
Gain declare_gain(Layout& layout, const std::string& name, int channels, float start);  // channels = 1 means one number

// Writes y and returns it; an absent gain returns x. y may be x.
const float* gain_forward(float* y, const float* x, const Gain& p, int N, int C);

// Writes dx and returns it; an absent gain returns dy. dx may be dy.
const float* gain_backward(float* dx, const Gain& g, const float* dy, const float* x, const Gain& p, int N, int C);
