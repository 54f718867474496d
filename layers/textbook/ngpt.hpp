#pragma once
// The parts of nGPT (Loshchilov et al. 2024, arXiv 2410.01131): a residual path on the sphere, queries and keys of
// length 1, factors on logits, and weight vectors of length 1.

#include <cmath>
#include <cstddef>
#include <vector>

#include "number.hpp"
#include "residual.hpp"

namespace textbook {

// ---- directions ----------------------------------------------------------------------------------------------

// The direction of a vector.
//   x, u (C)
//   forward   u = x/‖x‖
//   backward  dx = (du − u·⟨u, du⟩)/‖x‖

template <class Number>
void direction_forward(Number* u, const Number* x, size_t C) {
  const Number length = std::sqrt(dot(x, x, C));
  for (size_t c = 0; c < C; ++c) u[c] = x[c] / length;
}

// dx may be du.
template <class Number>
void direction_backward(Number* dx, const Number* du, const Number* x, size_t C) {
  const Number length = std::sqrt(dot(x, x, C)), along = dot(x, du, C) / length;
  for (size_t c = 0; c < C; ++c) dx[c] = (du[c] - along * x[c] / length) / length;
}

// ---- sphere --------------------------------------------------------------------------------------------------

// A step on the unit sphere, from x toward f.
//   x, f, y (N,C)   a (C): α = factor·|a|
//   forward   s = x̂ + α ⊙ (f̂ − x̂)      y = s/‖s‖      x̂ and f̂ are the directions of x and f
//   backward  df̂ = α ⊙ ds      dx̂ = ds − α ⊙ ds      dα = Σₙ ds ⊙ (f̂ − x̂)      da += factor·sign(a)·dα

template <class Number>
struct EigenRate {
  Number* a = nullptr;
  double factor = 1;

  double sign(size_t c) const { return std::real(a[c]) > 0 ? 1 : std::real(a[c]) < 0 ? -1 : 0; }
  Number alpha(size_t c) const { return factor * sign(c) * a[c]; }
};

template <class Number>
void sphere_forward(Number* y, const Number* x, const Number* f, const EigenRate<Number>& p, const Rows& rows) {
  const auto [N, C] = rows;
  std::vector<Number> from(C), to(C), s(C);
  for (size_t n = 0; n < N; ++n) {
    direction_forward(from.data(), x + n * C, C);
    direction_forward(to.data(), f + n * C, C);
    for (size_t c = 0; c < C; ++c) s[c] = from[c] + p.alpha(c) * (to[c] - from[c]);
    direction_forward(y + n * C, s.data(), C);
  }
}

template <class Number>
void sphere_backward(Number* dx, Number* df, const EigenRate<Number>& g, const Number* dy, const Number* x,
                     const Number* f, const EigenRate<Number>& p, const Rows& rows) {
  const auto [N, C] = rows;
  std::vector<Number> from(C), to(C), s(C), ds(C);
  for (size_t n = 0; n < N; ++n) {
    direction_forward(from.data(), x + n * C, C);
    direction_forward(to.data(), f + n * C, C);
    for (size_t c = 0; c < C; ++c) s[c] = from[c] + p.alpha(c) * (to[c] - from[c]);
    direction_backward(ds.data(), dy + n * C, s.data(), C);  // y = s/‖s‖
    for (size_t c = 0; c < C; ++c) {                         // s = x̂ + α ⊙ (f̂ − x̂)
      g.a[c] += p.factor * p.sign(c) * ds[c] * (to[c] - from[c]);
      df[n * C + c] = p.alpha(c) * ds[c];
      dx[n * C + c] = ds[c] - p.alpha(c) * ds[c];
    }
    direction_backward(df + n * C, df + n * C, f + n * C, C);  // f̂ = f/‖f‖
    direction_backward(dx + n * C, dx + n * C, x + n * C, C);  // x̂ = x/‖x‖
  }
}

// ---- unit heads ----------------------------------------------------------------------------------------------

// Heads of length 1, times a factor for each of their numbers. In place.
//   x, y: N rows of H heads of D numbers, `stride` numbers apart   a (H,D): s = factor·a
//   forward   y[h] = s[h] ⊙ u[h]      u[h] is the direction of x[h]
//   backward  du = s ⊙ dy      da += factor·Σₙ dy ⊙ u

struct HeadRows {
  size_t N, heads, D, stride;
};
template <class Number>
struct UnitHeads {
  std::vector<Number> x;  // (N,H,D) before
};

template <class Number>
void unit_heads_forward(Number* y, UnitHeads<Number>& saved, const Number* a, double factor, const HeadRows& rows) {
  const auto [N, heads, D, stride] = rows;
  saved.x.resize(N * heads * D);
  for (size_t n = 0; n < N; ++n)
    for (size_t h = 0; h < heads; ++h) {
      Number *at = y + n * stride + h * D, *x = &saved.x[(n * heads + h) * D];
      for (size_t d = 0; d < D; ++d) x[d] = at[d];
      direction_forward(at, x, D);
      for (size_t d = 0; d < D; ++d) at[d] *= factor * a[h * D + d];
    }
}

// d holds dy before the call and dx after it.
template <class Number>
void unit_heads_backward(Number* d, Number* da, const UnitHeads<Number>& saved, const Number* a, double factor,
                         const HeadRows& rows) {
  const auto [N, heads, D, stride] = rows;
  std::vector<Number> u(D);
  for (size_t n = 0; n < N; ++n)
    for (size_t h = 0; h < heads; ++h) {
      Number* at = d + n * stride + h * D;
      const Number* x = &saved.x[(n * heads + h) * D];
      direction_forward(u.data(), x, D);
      for (size_t i = 0; i < D; ++i) {
        da[h * D + i] += factor * at[i] * u[i];  // y = s ⊙ u
        at[i] *= factor * a[h * D + i];          // y = s ⊙ u
      }
      direction_backward(at, at, x, D);
    }
}

// ---- scaled rows ---------------------------------------------------------------------------------------------

// Rows times a factor each: the classifier's, so that the factor multiplies the token's logit.
//   weight, y (V,C)   a (V)
//   forward   y[v] = factor·a[v]·weight[v]
//   backward  dweight[v] += factor·a[v]·dy[v]      da[v] += factor·⟨dy[v], weight[v]⟩

template <class Number>
void scaled_rows_forward(Number* y, const Number* weight, const Number* a, double factor, size_t V, size_t C) {
  for (size_t i = 0; i < V * C; ++i) y[i] = factor * a[i / C] * weight[i];
}

template <class Number>
void scaled_rows_backward(Number* dweight, Number* da, const Number* dy, const Number* weight, const Number* a,
                          double factor, size_t V, size_t C) {
  for (size_t i = 0; i < V * C; ++i) {
    dweight[i] += factor * a[i / C] * dy[i];
    da[i / C] += factor * dy[i] * weight[i];
  }
}

// ---- normed weights ------------------------------------------------------------------------------------------

// After each step, the rows or columns of a matrix get the length 1.
//   w (R,C)   w[i,:] ← w[i,:]/‖w[i,:]‖, or w[:,j] ← w[:,j]/‖w[:,j]‖

template <class Number>
void normalize_vectors(Number* w, bool by_rows, size_t R, size_t C) {
  const size_t vectors = by_rows ? R : C, length = by_rows ? C : R;
  for (size_t i = 0; i < vectors; ++i) {
    const auto at = [&](size_t k) -> Number& { return by_rows ? w[i * C + k] : w[k * C + i]; };
    Number squares = 0;
    for (size_t k = 0; k < length; ++k) squares += at(k) * at(k);
    for (size_t k = 0; k < length; ++k) at(k) /= std::sqrt(squares);
  }
}

}  // namespace textbook
