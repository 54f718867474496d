#pragma once
// Two branches side by side: both read x, which is added once. With one norm for both, p2.norm_in is p1's.
//   x, y (N,C)
//   forward   y = skip·x + λ₁ ⊙ norm_out₁(F₁(in_scale·norm_in₁(x))) + λ₂ ⊙ norm_out₂(F₂(in_scale·norm_in₂(x)))
//   backward  dx is the sum of both branches'

#include "residual.hpp"

namespace textbook {

template <class Number, class First, class Second>
void parallel_forward(Number* y, BranchSaved<Number>& saved1, BranchSaved<Number>& saved2, const Number* x,
                      const Branch<Number>& p1, Branch<Number> p2, First&& F1, Second&& F2, size_t N, size_t C) {
  std::vector<Number> y2(N * C);
  p2.skip = 0;
  branch_forward(y, saved1, x, p1, F1, N, C);
  branch_forward(y2.data(), saved2, x, p2, F2, N, C);
  for (size_t i = 0; i < N * C; ++i) y[i] += y2[i];
}

template <class Number, class First, class Second>
void parallel_backward(Number* dx, const Branch<Number>& g1, const Branch<Number>& g2, const Number* dy,
                       const Number* x, const BranchSaved<Number>& saved1, const BranchSaved<Number>& saved2,
                       const Branch<Number>& p1, Branch<Number> p2, First&& F1, Second&& F2, size_t N, size_t C) {
  std::vector<Number> dx2(N * C);
  p2.skip = 0;
  branch_backward(dx, g1, dy, x, saved1, p1, F1, N, C);
  branch_backward(dx2.data(), g2, dy, x, saved2, p2, F2, N, C);
  for (size_t i = 0; i < N * C; ++i) dx[i] += dx2[i];
}

}  // namespace textbook
