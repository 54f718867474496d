#pragma once
// What a norm reads besides x, and what its forward saves for its backward. Parameters and their gradients are the same
// struct; a norm without a gain is absent.

#include <cstddef>
#include <vector>

#include "layers/model/config.hpp"
#include "number.hpp"

namespace textbook {

template <class Number>
struct Norm {
  NormKind kind = NormKind::layernorm;
  Number eps = 0, *gain = nullptr, *bias = nullptr;        // gain (C), ScaleNorm (1); bias (C) or none
  bool unit_offset = false;                                // LayerNorm, RMSNorm: gain holds w, the gain is 1 + w
  Number *alpha = nullptr, *shift = nullptr;               // (1) each: DyT alpha, Derf both
  Number *running_mean = nullptr, *running_var = nullptr;  // (C) each: BatchNorm
  bool training = true;                                    // BatchNorm: takes the statistics of these rows

  Number gain_at(size_t c) const { return unit_offset ? Number(1) + gain[c] : gain[c]; }
  Number bias_at(size_t c) const { return bias ? bias[c] : Number(0); }
};

template <class Number>
struct NormSaved {
  std::vector<Number> mean, rstd;  // (N) each, BatchNorm (C): μ and r
};

}  // namespace textbook
