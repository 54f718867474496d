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
//   With a unit offset the gain is 1 + w, and w starts at 0: Gemma (2024), its code; the report does not mention it.
//
//   norm_scale.cpp     ScaleNorm: one gain for all channels
//   norm_batch.cpp     BatchNorm: statistics of a channel over the batch
//   norm_pointwise.cpp DyT and Derf: an S-shaped function of each number, no statistics
//
// All are rows of one table, kNorms in norm.cpp. A new one is a NormKind and its name, a row there, and
// its two functions.

#include <string>

#include "layers/model/config.hpp"

// Parameters, or their gradients. A norm that is absent has no gain: it is the identity and costs nothing.
struct Norm {
  NormKind kind = NormKind::layernorm;
  float eps = 1e-5f;
  float* gain = nullptr;  // (C); ScaleNorm: (1)
  float* bias = nullptr;
  bool unit_offset = false;
  float *alpha = nullptr, *shift = nullptr;               // (1) each: DyT alpha, Derf both
  float *running_mean = nullptr, *running_var = nullptr;  // (C) each, BatchNorm only; not trained

  bool present() const { return gain != nullptr; }
};

struct NormSaved {
  float* mean = nullptr;      // (N) LayerNorm, (C) BatchNorm
  float* rstd = nullptr;      // (N) LayerNorm, RMSNorm, ScaleNorm: what x is multiplied by
  float* variance = nullptr;  // (C) BatchNorm
};

// A norm of rows that are `width` wide.
Norm declare_norm(Layout& layout, const Config& config, const std::string& name, int width);
NormSaved declare_norm_saved(Layout& layout, const Config& config, const std::string& name, int N, int width);

// Writes y and returns it; an absent norm returns x. y may be x. `training`: a backward pass will follow, and BatchNorm
// takes the statistics of these rows; else it takes the running ones. To the others it is the same.
const float* norm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);

// Writes dx and returns it; an absent norm returns dy. dx may be dy. BatchNorm moves its running statistics here.
const float* norm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                           const Norm& p, int N, int C);

struct NormRow {
  NormKind kind;
  const char* source;
  bool bias;  // has one where linear layers have, unless --norm-bias says otherwise
  bool row_norm;  // a row's own statistics, a gain a channel: may have a unit offset, and norm queries and keys
  void (*declare)(Norm& p, Layout& layout, const Config& config, const std::string& name, int C);
  void (*declare_saved)(NormSaved& saved, Layout& layout, const std::string& name, int N, int C);
  void (*forward)(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);
  void (*backward)(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved, const Norm& p,
                   int N, int C);
};
const NormRow& norm_row(NormKind kind);

// ---- the functions of the rows that have files of their own ----------------------------------------------------

void scalenorm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);
void scalenorm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                        const Norm& p, int N, int C);
void batchnorm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);
void batchnorm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                        const Norm& p, int N, int C);
void pointwise_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);
void pointwise_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                        const Norm& p, int N, int C);
