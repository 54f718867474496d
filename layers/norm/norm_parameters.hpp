#pragma once
// Parameters and saved statistics of every norm.

#include "layers/config/config.hpp"
#include "layers/config/tensors.hpp"

// Parameters, or their gradients. An absent norm is the identity and costs nothing.
struct Norm {
  NormKind kind = NormKind::layernorm;
  float eps = 1e-5f;
  float* gain = nullptr;  // (C); ScaleNorm: (1)
  bool gainless = false;  // LayerNorm, RMSNorm: the gain is 1
  float* bias = nullptr;
  bool unit_offset = false;
  float *alpha = nullptr, *shift = nullptr;               // (1) each; DyT has alpha, Derf has both
  float *running_mean = nullptr, *running_var = nullptr;  // (C) each, BatchNorm only; not trained
  float *down = nullptr, *up = nullptr;                   // (rank,C), (C,rank), GatedNorm only
  int rank = 0;

  bool present() const { return gain || gainless; }
};

struct NormSaved {
  float* mean = nullptr;      // (N) LayerNorm, (C) BatchNorm
  float* rstd = nullptr;      // (N) LayerNorm, RMSNorm, ScaleNorm, GatedNorm: the factor that multiplies x
  float* variance = nullptr;  // (C) BatchNorm
};
