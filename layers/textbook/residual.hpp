#pragma once
// A residual branch around any F: a placement says which of the three norms are there, and what skip is.
//
//   x, y (N,C)
//   forward   u = norm_in(x)      f = F(u)      s = skip·x + norm_out(f)      y = norm_sum(s)
//   backward  ds = norm_sum'(dy)      df = norm_out'(ds)      du = F'(df)      dx = skip·ds + norm_in'(du)

#include "norm.hpp"

namespace textbook {

template <class Number>
struct Branch {  // parameters, or their gradients
  Norm<Number> norm_in, norm_out, norm_sum;
  Number skip = 1;
};
template <class Number>
struct BranchSaved {
  std::vector<Number> u, f, s;  // (N,C) each
  NormSaved<Number> in, out, sum;
};

// F.forward(f, u) writes f, F.backward(du, df, u) writes du.
template <class Number, class Function>
void branch_forward(Number* y, BranchSaved<Number>& saved, const Number* x, const Branch<Number>& p,
                    Function&& F, size_t N, size_t C) {
  std::vector<Number> out(N * C);
  for (auto* row : {&saved.u, &saved.f, &saved.s}) row->resize(N * C);
  norm_forward(saved.u.data(), saved.in, x, p.norm_in, N, C);
  F.forward(saved.f.data(), saved.u.data());
  norm_forward(out.data(), saved.out, saved.f.data(), p.norm_out, N, C);
  for (size_t i = 0; i < N * C; ++i) saved.s[i] = p.skip * x[i] + out[i];
  norm_forward(y, saved.sum, saved.s.data(), p.norm_sum, N, C);
}

template <class Number, class Function>
void branch_backward(Number* dx, const Branch<Number>& g, const Number* dy, const Number* x,
                     const BranchSaved<Number>& saved, const Branch<Number>& p, Function&& F, size_t N,
                     size_t C) {
  const auto& [u, f, s, in, out, sum] = saved;
  std::vector<Number> ds(N * C), df(N * C), du(N * C);
  norm_backward(ds.data(), g.norm_sum, dy, s.data(), sum, p.norm_sum, N, C);         // y = norm_sum(s)
  norm_backward(df.data(), g.norm_out, ds.data(), f.data(), out, p.norm_out, N, C);  // s = ... + norm_out(f)
  F.backward(du.data(), df.data(), u.data());                                        // f = F(u)
  norm_backward(dx, g.norm_in, du.data(), x, in, p.norm_in, N, C);                   // u = norm_in(x)
  for (size_t i = 0; i < N * C; ++i) dx[i] += p.skip * ds[i];                        // s = skip·x + ...
}

}  // namespace textbook
