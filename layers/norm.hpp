#pragma once
//   x (N,C)   gain (C)   bias (C) or none   y (N,C)
//   LayerNorm  (Ba et al. 2016, arXiv 1607.06450)
//     forward   y = gain·x̂ + bias       x̂ = (x − μ)·r      r = (var + eps)^-½      μ, var over the C of a row
//     backward  dx = r·(dx̂ − mean(dx̂) − x̂·mean(dx̂·x̂))      dx̂ = dy·gain
//   RMSNorm  (Zhang & Sennrich 2019, arXiv 1910.07467): the same without the mean
//     forward   x̂ = x·r                r = (mean(x²) + eps)^-½
//     backward  dx = r·(dx̂ − x̂·mean(dx̂·x̂))
//   both       dgain += Σₙ dy·x̂      dbias += Σₙ dy
//   saves      μ and r of each row; the caller still holds x

#include <string>

#include "config.hpp"

// Parameters, or their gradients. A norm that is absent has no gain: it is the identity and costs nothing.
struct Norm {
  NormKind kind = NormKind::layernorm;
  float eps = 1e-5f;
  float* gain = nullptr;
  float* bias = nullptr;

  bool present() const { return gain != nullptr; }
};

struct NormSaved {
  float* mean = nullptr;  // (N), LayerNorm only
  float* rstd = nullptr;  // (N)
};

Norm declare_norm(Layout& layout, const Config& config, const std::string& name, int width);
NormSaved declare_norm_saved(Layout& layout, const Config& config, const std::string& name, int N);

// Writes y and returns it; an absent norm returns x. y may be x.
const float* norm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C);

// Writes dx and returns it; an absent norm returns dy. dx may be dy.
const float* norm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                           const Norm& p, int N, int C);
