#pragma once
//   x (N,C)   gain g (1)   y (N,C)
//   ScaleNorm  (Nguyen & Salazar 2019, arXiv 1910.05895, eq. 5): scales a row to length g, which starts at √C
//     forward   y = g·u                    u = x·r      r = (Σx² + C·eps)^-½
//     backward  dx = g·r·(dy − u·Σ dy·u)   dg += Σₙ Σ dy·u
//   saves      r of each row
//
// The paper has no eps; its code clamps ‖x‖ to 1e-5. Here eps is added to the mean square inside the root, as in
// RMSNorm: r has a derivative everywhere, eps means the same size of x for every C, and ScaleNorm is RMSNorm with all
// gains g/√C.

#include "norm_parameters.hpp"

void scalenorm_forward(float* y, const NormSaved& saved, const float* x, const Norm& p, int N, int C, bool training);
void scalenorm_backward(float* dx, const Norm& g, const float* dy, const float* x, const NormSaved& saved,
                        const Norm& p, int N, int C);
