#pragma once
// The residual branch: skip path, norms and gain around a sublayer F.

#include <cstddef>
#include <utility>
#include <vector>

#include "norm.hpp"

namespace textbook {

// ---- gain ----------------------------------------------------------------------------------------------------

// Gain: the parameter of the gain (LayerScale, ReZero), or its gradient. Without weight it is absent: the identity.
//   x, y (N,C)   weight λ (C), or (1) if single
//   forward   y  = s·λ ⊙ x      s = factor
//   backward  dx = s·λ ⊙ dy      dλ += s·Σₙ dy ⊙ x; if single, summed over the channels too

template <class Number>
struct Gain {
  Number* weight = nullptr;
  bool single = false;
  double factor = 1;
};

template <class Number>
void gain_forward(Number* y, const Number* x, const Gain<Number>& p, size_t N, size_t C) {
  for (size_t i = 0; i < N * C; ++i) y[i] = p.weight ? p.factor * p.weight[p.single ? 0 : i % C] * x[i] : x[i];
}

template <class Number>
void gain_backward(Number* dx, const Gain<Number>& g, const Number* dy, const Number* x, const Gain<Number>& p,
                   size_t N, size_t C) {
  for (size_t i = 0; i < N * C; ++i) {
    const size_t c = p.single ? 0 : i % C;
    if (p.weight) g.weight[c] += p.factor * dy[i] * x[i];          // y = s·λ ⊙ x
    dx[i] = p.weight ? p.factor * p.weight[c] * dy[i] : dy[i];  // y = s·λ ⊙ x
  }
}

// ---- gpas ----------------------------------------------------------------------------------------------------

// Gpas: the gate g of gradient-preserving activation scaling, or its gradient. Without gate it is absent.
//   s, y (N,C)   gate g (1)
//   forward   y  = s − SiLU(g)·stop_gradient(s)          SiLU(g) = g·σ(g)
//   backward  ds = dy      dg −= SiLU'(g)·Σ dy·s         SiLU'(g) = σ + g·σ(1 − σ)

template <class Number>
struct Gpas {
  Number* gate = nullptr;
};

template <class Number>
void gpas_forward(Number* y, const Number* s, const Gpas<Number>& p, size_t N, size_t C) {
  if (!p.gate) return;
  const Number g = *p.gate, sigmoid = Number(1) / (Number(1) + std::exp(-g));
  for (size_t i = 0; i < N * C; ++i) y[i] = s[i] - g * sigmoid * stop_gradient(s[i]);
}

template <class Number>
void gpas_backward(const Gpas<Number>& g, const Number* dy, const Number* s, const Gpas<Number>& p, size_t N,
                   size_t C) {
  if (!p.gate) return;
  const Number sigmoid = Number(1) / (Number(1) + std::exp(-*p.gate));
  const Number slope = sigmoid + *p.gate * sigmoid * (Number(1) - sigmoid);
  for (size_t i = 0; i < N * C; ++i) *g.gate -= slope * dy[i] * s[i];  // y = s − SiLU(g)·stop_gradient(s)
}

// ---- skip gain -----------------------------------------------------------------------------------------------

// SkipGain: the gain ω on the skip path (Admin), as a part of the sublayer. With it the skip path of the branch has the
// factor 0, and out_scale is 1. p holds ω, g its gradient. u is x, because the branch has no norm_in.
//   x, u, f (N,C)   ω (C)
//   forward   f  = out_scale·F(u) + skip·ω ⊙ u
//   backward  du = F'(out_scale·df) + skip·ω ⊙ df      dω += skip·Σₙ df ⊙ u

template <class Number, class Function>
struct SkipGain {
  Function& F;
  Gain<Number> p, g;
  Number skip, out_scale;
  size_t N, C;

  void forward(Number* f, const Number* u) {
    F.forward(f, u);
    for (size_t i = 0; i < N * C; ++i) f[i] = out_scale * f[i] + skip * p.weight[i % C] * u[i];
  }
  void backward(Number* du, const Number* df, const Number* u) {
    std::vector<Number> scaled(N * C);
    for (size_t i = 0; i < N * C; ++i) scaled[i] = out_scale * df[i];  // f = out_scale·F(u) + ...
    F.backward(du, scaled.data(), u);                                  // f = out_scale·F(u) + ...
    for (size_t i = 0; i < N * C; ++i) {
      g.weight[i % C] += skip * df[i] * u[i];   // f = ... + skip·ω ⊙ u
      du[i] += skip * p.weight[i % C] * df[i];  // f = ... + skip·ω ⊙ u
    }
  }
};

// ---- mix -----------------------------------------------------------------------------------------------------

// Mix: a weighted sum of two inputs. It holds the factors a and b, or their gradients. If they are null, both factors
// are `constant`.
//   x, z (n)   y (n)
//   forward   y  = a·x + b·z
//   backward  dx = a·dy      dz += b·dy      da += Σ dy·x      db += Σ dy·z

template <class Number>
struct Mix {
  Number *own = nullptr, *first = nullptr;
  double constant = 0;

  Number a() const { return own ? *own : Number(constant); }
  Number b() const { return first ? *first : Number(constant); }
};

template <class Number>
void mix_forward(Number* y, const Number* x, const Number* z, const Mix<Number>& p, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = p.a() * x[i] + p.b() * z[i];
}

// dx may be dy.
template <class Number>
void mix_backward(Number* dx, Number* dz, const Mix<Number>& g, const Number* dy, const Number* x, const Number* z,
                  const Mix<Number>& p, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (g.own) *g.own += dy[i] * x[i];      // y = a·x + b·z
    if (g.first) *g.first += dy[i] * z[i];  // y = a·x + b·z
    dz[i] += p.b() * dy[i];                 // y = a·x + b·z
    dx[i] = p.a() * dy[i];                  // y = a·x + b·z
  }
}

// ---- parameters ----------------------------------------------------------------------------------------------

// Branch: the parameters of a residual branch, or their gradients. The placement says which norms are present, and what
// skip and in_scale are. BranchSaved: what forward saves for backward.
//
//   y = norm_sum( skip·x + out_scale·λ ⊙ norm_out( F( in_scale·norm_in(x) ) ) )    an absent norm or λ is the identity

template <class Number>
struct Branch {
  Norm<Number> norm_in, norm_out, norm_sum;
  Gain<Number> gain = {};
  Number skip = 1, in_scale = 1, out_scale = 1;
};
template <class Number>
struct BranchSaved {
  std::vector<Number> u, f, o, s;  // (N,C) each; o = norm_out(f)
  NormSaved<Number> in, out, sum;
};

// ---- branch --------------------------------------------------------------------------------------------------

// A residual branch around any F. (norm_inner is part of F: it comes before the last matrix of F.)
//   x, y (N,C)
//   forward   u = in_scale·norm_in(x)     f = F(u)     s = skip·x + out_scale·λ ⊙ norm_out(f)     y = norm_sum(s)
//   backward  ds = norm_sum'(dy)     df = norm_out'(out_scale·λ ⊙ ds)     du = F'(df)
//             dx = skip·ds + norm_in'(in_scale·du)
// F.forward(f, u) writes f (N,C). F.backward(du, df, u) writes du (N,C).

struct Rows {
  size_t N, C;
};

template <class Number, class Function>
void branch_forward(Number* y, BranchSaved<Number>& saved, const Number* x, const Branch<Number>& p, Function&& F,
                    const Rows& rows) {
  const auto [N, C] = rows;
  std::vector<Number> added(N * C);
  for (auto* row : {&saved.u, &saved.f, &saved.o, &saved.s}) row->resize(N * C);
  norm_forward(saved.u.data(), saved.in, x, p.norm_in, N, C);
  for (Number& u : saved.u) u *= p.in_scale;
  F.forward(saved.f.data(), saved.u.data());
  norm_forward(saved.o.data(), saved.out, saved.f.data(), p.norm_out, N, C);
  gain_forward(added.data(), saved.o.data(), p.gain, N, C);
  for (size_t i = 0; i < N * C; ++i) saved.s[i] = p.skip * x[i] + p.out_scale * added[i];
  norm_forward(y, saved.sum, saved.s.data(), p.norm_sum, N, C);
}

template <class Number, class Function>
void branch_backward(Number* dx, const Branch<Number>& g, const Number* dy, const Number* x,
                     const BranchSaved<Number>& saved, const Branch<Number>& p, Function&& F, const Rows& rows) {
  const auto [N, C] = rows;
  const auto& [u, f, o, s, in, out, sum] = saved;
  std::vector<Number> ds(N * C), d(N * C), df(N * C), du(N * C);
  norm_backward(ds.data(), g.norm_sum, dy, s.data(), sum, p.norm_sum, N, C);        // y = norm_sum(s)
  for (size_t i = 0; i < N * C; ++i) d[i] = p.out_scale * ds[i];                    // s = ... + out_scale·...
  gain_backward(d.data(), g.gain, d.data(), o.data(), p.gain, N, C);                // ... λ ⊙ norm_out(f)
  norm_backward(df.data(), g.norm_out, d.data(), f.data(), out, p.norm_out, N, C);  // ... λ ⊙ norm_out(f)
  F.backward(du.data(), df.data(), u.data());                                       // f = F(u)
  for (Number& v : du) v *= p.in_scale;                                             // u = in_scale·norm_in(x)
  norm_backward(dx, g.norm_in, du.data(), x, in, p.norm_in, N, C);                  // u = in_scale·norm_in(x)
  for (size_t i = 0; i < N * C; ++i) dx[i] += p.skip * ds[i];                       // s = skip·x + ...
}

// ---- parallel branches ---------------------------------------------------------------------------------------

// Two parallel branches, first and second: both read x, and x is added once. If they share a norm, the norm_in of both
// is the same.
//   x, y (N,C)
//   forward   y = skip·x + λ₁ ⊙ norm_out₁(F₁(in_scale·norm_in₁(x))) + λ₂ ⊙ norm_out₂(F₂(in_scale·norm_in₂(x)))
//   backward  dx = dx₁ + dx₂, one from each branch

template <class Number>
using TwoBranches = std::pair<Branch<Number>, Branch<Number>>;
template <class Number>
using TwoSaved = std::pair<BranchSaved<Number>, BranchSaved<Number>>;

template <class Number, class Functions>
void parallel_forward(Number* y, TwoSaved<Number>& saved, const Number* x, TwoBranches<Number> p, Functions&& F,
                      const Rows& rows) {
  const size_t size = rows.N * rows.C;
  std::vector<Number> y2(size);
  p.second.skip = 0;
  branch_forward(y, saved.first, x, p.first, F.first, rows);
  branch_forward(y2.data(), saved.second, x, p.second, F.second, rows);
  for (size_t i = 0; i < size; ++i) y[i] += y2[i];
}

template <class Number, class Functions>
void parallel_backward(Number* dx, const TwoBranches<Number>& g, const Number* dy, const Number* x,
                       const TwoSaved<Number>& saved, TwoBranches<Number> p, Functions&& F, const Rows& rows) {
  const size_t size = rows.N * rows.C;
  std::vector<Number> dx2(size);
  p.second.skip = 0;
  branch_backward(dx, g.first, dy, x, saved.first, p.first, F.first, rows);
  branch_backward(dx2.data(), g.second, dy, x, saved.second, p.second, F.second, rows);
  for (size_t i = 0; i < size; ++i) dx[i] += dx2[i];
}

}  // namespace textbook
