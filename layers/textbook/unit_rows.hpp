#pragma once
// Rows of length 1 (FixNorm).
//
//   weight, unit (V,C)
//   forward   unit[v,:] = weight[v,:]/‖weight[v,:]‖
//   backward  dweight[v,:] += (dunit[v,:] − unit[v,:]·⟨unit[v,:], dunit[v,:]⟩)/‖weight[v,:]‖

#include <cmath>
#include <cstddef>

#include "number.hpp"

namespace textbook {

template <class Number>
void unit_rows_forward(Number* unit, const Number* weight, size_t V, size_t C) {
  for (size_t v = 0; v < V; ++v, weight += C, unit += C) {
    const Number length = std::sqrt(dot(weight, weight, C));
    for (size_t c = 0; c < C; ++c) unit[c] = weight[c] / length;
  }
}

template <class Number>
void unit_rows_backward(Number* dweight, const Number* dunit, const Number* weight, size_t V, size_t C) {
  for (size_t v = 0; v < V; ++v, weight += C, dweight += C, dunit += C) {
    const Number length = std::sqrt(dot(weight, weight, C)), along = dot(weight, dunit, C) / length;
    for (size_t c = 0; c < C; ++c) dweight[c] += (dunit[c] - along * weight[c] / length) / length;  // unit = w/‖w‖
  }
}

}  // namespace textbook
