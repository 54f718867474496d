#pragma once
//   x (N,C)   gain (C)   bias (C) or null   y (N,C)
//   forward   y = gain·x̂ + bias      x̂ = (x − μ)·r      r = (mean((x − μ)²) + eps)^-½     means over a row
//             LayerNorm: μ = mean(x)                     RMSNorm: μ = 0
//   backward  dx = r·(dx̂ − mean(dx̂) − x̂·mean(dx̂·x̂))      dx̂ = dy·gain      RMSNorm: without mean(dx̂)
//             dgain += Σₙ dy·x̂      dbias += Σₙ dy

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace textbook {

template <class Number>
struct Norm {  // parameters, or their gradients; a norm without gain is absent: the identity
  bool centred = true;
  Number eps = 0, *gain = nullptr, *bias = nullptr;
};
template <class Number>
struct NormSaved {
  std::vector<Number> mean, rstd;  // (N) each: μ and r
};

template <class Number>
void norm_forward(Number* y, NormSaved<Number>& saved, const Number* x, const Norm<Number>& p, size_t N,
                  size_t C) {
  if (!p.gain) return void(std::copy_n(x, N * C, y));
  saved = {std::vector<Number>(N), std::vector<Number>(N)};
  for (size_t n = 0; n < N; ++n, x += C, y += C) {
    Number mean = 0, variance = 0;
    for (size_t c = 0; c < C && p.centred; ++c) mean += x[c] / Number(C);
    for (size_t c = 0; c < C; ++c) variance += (x[c] - mean) * (x[c] - mean) / Number(C);
    const Number rstd = Number(1) / std::sqrt(variance + p.eps);
    for (size_t c = 0; c < C; ++c) y[c] = p.gain[c] * (x[c] - mean) * rstd + (p.bias ? p.bias[c] : Number(0));
    saved.mean[n] = mean, saved.rstd[n] = rstd;
  }
}

template <class Number>
void norm_backward(Number* dx, const Norm<Number>& g, const Number* dy, const Number* x,
                   const NormSaved<Number>& saved, const Norm<Number>& p, size_t N, size_t C) {
  if (!p.gain) return void(std::copy_n(dy, N * C, dx));
  std::vector<Number> xhat(C), dxhat(C);
  for (size_t n = 0; n < N; ++n, x += C, dy += C, dx += C) {
    Number mean_dxhat = 0, mean_dot = 0;
    for (size_t c = 0; c < C; ++c) {
      xhat[c] = (x[c] - saved.mean[n]) * saved.rstd[n];
      dxhat[c] = dy[c] * p.gain[c];                       // y = gain·x̂ + bias
      g.gain[c] += dy[c] * xhat[c];                       // y = gain·x̂ + bias
      if (g.bias) g.bias[c] += dy[c];                     // y = gain·x̂ + bias
      if (p.centred) mean_dxhat += dxhat[c] / Number(C);  // μ = mean(x)
      mean_dot += dxhat[c] * xhat[c] / Number(C);         // r = (mean((x − μ)²) + eps)^-½
    }
    for (size_t c = 0; c < C; ++c)  // x̂ = (x − μ)·r
      dx[c] = saved.rstd[n] * (dxhat[c] - mean_dxhat - xhat[c] * mean_dot);
  }
}

}  // namespace textbook
