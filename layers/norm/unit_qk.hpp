#pragma once
// Queries and keys of length 1, times learned factors: nGPT (Loshchilov et al. 2024, arXiv 2410.01131).
// In place, after RoPE. The scores then have the scale √D in place of D^-½.
//
//   q, k (N,H,D)   weight a (H,D), which starts at C^-½: one for q and k     s = √C·a
//   forward   y[h] = s[h] ⊙ u[h]      u[h] = x[h]/‖x[h]‖                     a head of zeros stays 0
//   backward  du = s ⊙ dy      dx = (du − u·⟨u, du⟩)/‖x‖      da += √C·Σₙ dy ⊙ u, of q and of k
//   saves     u (N,H·D) and 1/‖x‖ (N,H), of q and of k
//
// a starts at C^-½ because Adam moves every number by about the learning rate: so s changes by the same share as the
// weights, whose numbers are about C^-½.

#include <string>

#include "layers/config/config.hpp"
#include "layers/config/tensors.hpp"
#include "qk_norm.hpp"

// Parameters, or their gradients; absent unless config.qk_norm is unit.
struct UnitQk {
  float* weight = nullptr;
  float factor = 1;  // √C
  bool present() const { return weight; }
};
UnitQk declare_unit_qk(Layout& layout, const Config& config, const std::string& name);

struct UnitHeads {
  float *unit = nullptr, *scale = nullptr;  // (N,H·D) (N,H)
};
struct UnitQkSaved {
  UnitHeads q, k;
};
UnitQkSaved declare_unit_qk_saved(Layout& layout, const Config& config, const std::string& name, int N);

// x.N rows of q and of k.
void unit_qk_forward(const QkNormRows& x, const UnitQkSaved& saved, const UnitQk& p, const Config& config);
void unit_qk_backward(const QkNormRows& d, const UnitQk& g, const UnitQkSaved& saved, const UnitQk& p,
                      const Config& config);
