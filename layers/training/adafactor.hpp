#pragma once
// Adafactor (Shazeer & Stern 2018, arXiv 1804.04235, algorithms 4 to 6) without momentum. For a matrix (rows,cols) it
// keeps the mean of g² in each row and in each column; for a vector, every g². With t counted from 1:
//   r_i ← r_i + t^−0.8 (mean_j g_ij² − r_i)       c_j ← c_j + t^−0.8 (mean_i g_ij² − c_j)
//   v_ij = r_i c_j / mean(r)                      for a vector v_i ← v_i + t^−0.8 (g_i² − v_i)
//   u = g / √max(v, 1e-30)                        u ← u / max(1, rms(u)), which clips the update
//   w ← w − lr·weight_decay·w − lr·max(1e-3, rms(w))·u         with rms(w) from before the decay
// So lr is relative: a step of 0.01 moves a tensor by at most one percent of its root mean square.
//
// As in PyTorch's `torch.optim.Adafactor`: means instead of sums, the place of the floor 1e-30, and the decay. (The
// paper adds 1e-30 to g².) Unlike in both, lr is not limited to 1/√t: --schedule decides.

#include "optimizer.hpp"

extern const Optimizer kAdafactor;         // for matrices: row_var, col_var
extern const Optimizer kAdafactorVectors;  // for all other tensors: variance
