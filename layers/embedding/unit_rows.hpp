#pragma once
// Rows of length 1: the word embeddings of FixNorm, which the first block reads and the classifier multiplies with
// (Nguyen & Chiang 2018, arXiv 1710.01329; Nguyen & Salazar 2019, arXiv 1910.05895).
//
//   weight, unit (V,C)
//   forward   unit[v,:] = weight[v,:]/‖weight[v,:]‖         a row of zeros stays 0
//   backward  dweight[v,:] += (dunit[v,:] − unit[v,:]·⟨unit[v,:], dunit[v,:]⟩)/‖weight[v,:]‖         of zeros: 0
//   saves     unit (V,C) and scale (V), 1/‖weight[v,:]‖

#include <string>

#include "layers/config/tensors.hpp"

struct UnitRows {
  float *unit = nullptr, *scale = nullptr;
  float* gradient = nullptr;  // (V,C) dunit, in training
  bool present() const { return unit; }
};
UnitRows declare_unit_rows(Layout& layout, const std::string& name, int V, int C, bool training);

void unit_rows_forward(const UnitRows& rows, const Matrix& weight, int V, int C);
// Reads rows.gradient.
void unit_rows_backward(float* dweight, const UnitRows& rows, int V, int C);
