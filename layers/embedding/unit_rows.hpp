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

// The same struct for rows times learned factors, the classifier's of nGPT (Loshchilov et al. 2024, arXiv 2410.01131,
// s_z), which multiply the logits:
//
//   gain a (V), which starts at C^-½     factor √C
//   forward   scale = factor·a      unit[v,:] = scale[v]·weight[v,:]
//   backward  dweight[v,:] += scale[v]·dunit[v,:]      da[v] += factor·⟨weight[v,:], dunit[v,:]⟩
struct RowGain {
  float* weight = nullptr;  // a, or its gradient
  float factor = 1;
  bool present() const { return weight; }
};
void scaled_rows_forward(const UnitRows& rows, const Matrix& weight, const RowGain& gain, int V, int C);
// dweight is null if the matrix does not train.
void scaled_rows_backward(float* dweight, const RowGain& g, const UnitRows& rows, const Matrix& weight,
                          const RowGain& gain, int V, int C);
