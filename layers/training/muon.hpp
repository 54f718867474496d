#pragma once
// Muon (Jordan et al. 2024, kellerjordan.github.io/posts/muon, github.com/KellerJordan/Muon) for a matrix W (rows,cols)
// of a linear layer in a block:
//   B ← B + (1 − μ)(G − B)         U = G + μ (B − G) with Nesterov, or B
//   X = U / (‖U‖ + 1e-7)           ‖ ‖ is the Frobenius norm
//   X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X         five times: Newton and Schulz's iteration
//   W ← W − lr·weight_decay·W − lr·scale·X
// The polynomial sends all singular values of U to about 1, so a step has the same size in every direction.
//
//   scale        √max(1, rows/cols) (Jordan), or 0.2·√max(rows, cols): about AdamW's root mean square, so that both
//                parts of a model can share a learning rate (Liu et al. 2025, arXiv 2502.16982)
//   polynomials  a, b, c = 3.4445, −4.7750, 2.0315 (Jordan), or other ones in each round: Polar Express
//                (Amsel et al. 2025, arXiv 2505.16932, appendix A, with its safety factor of 1.01 and ‖U‖·1.01)
//
// NorMuon (Li et al. 2025, arXiv 2510.05491, github.com/zichongli5/NorMuon) gives the rows of X similar sizes:
//   v_i ← v_i + (1 − β₂)(mean_j X_ij² − v_i)   X_ij ← X_ij / (√v_i + 1e-10)   and a factor restores ‖X‖
//
// Tensors that gemm reads as one matrix (q|k|v, gate|up) are orthogonalized one by one. Joined, the largest would
// determine the others' steps.

#include "optimizer.hpp"

extern const Optimizer kMuon;     // momentum_buffer
extern const Optimizer kNorMuon;  // momentum_buffer, second_momentum_buffer (one number per row)

// One round: σ ← aσ + bσ³ + cσ⁵.
struct OddPolynomial {
  float a, b, c;
};
// The rounds of an iteration, and the factor on ‖U‖ before the first.
struct PolarRounds {
  std::span<const OddPolynomial> polynomials;
  float margin;
};
PolarRounds polar_rounds(PolarIteration iteration);

// Returns the factor on the orthogonal matrix.
float muon_scale(MuonScale scale, int rows, int cols);
