#pragma once
//   x (N,C)   gain (C)   bias (C) or null   y (N,C)
//   of a row     LayerNorm, RMSNorm
//     forward    y = gain·x̂ + bias      x̂ = (x − μ)·r      r = (mean((x − μ)²) + eps)^-½     means over a row
//                LayerNorm: μ = mean(x)                     RMSNorm: μ = 0
//     backward   dx = r·(dx̂ − mean(dx̂) − x̂·mean(dx̂·x̂))      dx̂ = dy·gain      RMSNorm: without mean(dx̂)
//                dgain += Σₙ dy·x̂      dbias += Σₙ dy
//                with a unit offset the gain is 1 + w
//   ScaleNorm    gain g (1)
//     forward    y = g·u      u = x·r      r = (Σx² + C·eps)^-½
//     backward   dx = g·r·(dy − u·Σ dy·u)      dg += Σₙ Σ dy·u
//   of a channel BatchNorm: forward as LayerNorm, but means over the N rows; in evaluation the running statistics
//     backward   as LayerNorm with means over the rows
//                running ← .9·running + .1·(μ, var·N/(N − 1))
//   pointwise    DyT: f = tanh      Derf: f = erf      u = alpha·x + shift; DyT: shift = 0
//     forward    y = gain·f(u) + bias
//     backward   du = dy·gain·f'(u)     dx = alpha·du     dalpha += Σ du·x     dshift += Σ du
//                dgain += Σₙ dy·f(u)    dbias += Σₙ dy

#include <algorithm>
#include <cstddef>
#include <vector>

#include "../config.hpp"
#include "number.hpp"

namespace textbook {

template <class Number>
struct Norm {  // parameters, or their gradients; a norm without gain is absent: the identity
  NormKind kind = NormKind::layernorm;
  Number eps = 0, *gain = nullptr, *bias = nullptr;
  bool unit_offset = false;
  Number *alpha = nullptr, *shift = nullptr;
  Number *running_mean = nullptr, *running_var = nullptr;
  bool training = true;
};
template <class Number>
struct NormSaved {
  std::vector<Number> mean, rstd;  // (N) each, BatchNorm (C): μ and r
};

// ---- over a row --------------------------------------------------------------------------------------------

template <class Number>
void row_forward(Number* y, NormSaved<Number>& saved, const Number* x, const Norm<Number>& p, size_t N, size_t C) {
  saved = {std::vector<Number>(N), std::vector<Number>(N)};
  const Number offset = p.unit_offset ? 1 : 0;
  for (size_t n = 0; n < N; ++n, x += C, y += C) {
    Number mean = 0, variance = 0;
    for (size_t c = 0; c < C && p.kind == NormKind::layernorm; ++c) mean += x[c] / Number(C);
    for (size_t c = 0; c < C; ++c) variance += (x[c] - mean) * (x[c] - mean) / Number(C);
    const Number rstd = Number(1) / std::sqrt(variance + p.eps);
    for (size_t c = 0; c < C; ++c)
      y[c] = (offset + p.gain[c]) * (x[c] - mean) * rstd + (p.bias ? p.bias[c] : Number(0));
    saved.mean[n] = mean, saved.rstd[n] = rstd;
  }
}

template <class Number>
void row_backward(Number* dx, const Norm<Number>& g, const Number* dy, const Number* x,
                  const NormSaved<Number>& saved, const Norm<Number>& p, size_t N, size_t C) {
  const Number offset = p.unit_offset ? 1 : 0;
  std::vector<Number> xhat(C), dxhat(C);
  for (size_t n = 0; n < N; ++n, x += C, dy += C, dx += C) {
    Number mean_dxhat = 0, mean_dot = 0;
    for (size_t c = 0; c < C; ++c) {
      xhat[c] = (x[c] - saved.mean[n]) * saved.rstd[n];
      dxhat[c] = dy[c] * (offset + p.gain[c]);                                   // y = gain·x̂ + bias
      g.gain[c] += dy[c] * xhat[c];                                              // y = gain·x̂ + bias
      if (g.bias) g.bias[c] += dy[c];                                            // y = gain·x̂ + bias
      if (p.kind == NormKind::layernorm) mean_dxhat += dxhat[c] / Number(C);     // μ = mean(x)
      mean_dot += dxhat[c] * xhat[c] / Number(C);                                // r = (mean((x − μ)²) + eps)^-½
    }
    for (size_t c = 0; c < C; ++c)  // x̂ = (x − μ)·r
      dx[c] = saved.rstd[n] * (dxhat[c] - mean_dxhat - xhat[c] * mean_dot);
  }
}

template <class Number>
void scale_forward(Number* y, NormSaved<Number>& saved, const Number* x, const Norm<Number>& p, size_t N, size_t C) {
  saved = {{}, std::vector<Number>(N)};
  for (size_t n = 0; n < N; ++n, x += C, y += C) {
    Number squares = 0;
    for (size_t c = 0; c < C; ++c) squares += x[c] * x[c];
    saved.rstd[n] = Number(1) / std::sqrt(squares + Number(C) * p.eps);
    for (size_t c = 0; c < C; ++c) y[c] = *p.gain * x[c] * saved.rstd[n];
  }
}

template <class Number>
void scale_backward(Number* dx, const Norm<Number>& g, const Number* dy, const Number* x,
                    const NormSaved<Number>& saved, const Norm<Number>& p, size_t N, size_t C) {
  for (size_t n = 0; n < N; ++n, x += C, dy += C, dx += C) {
    const Number r = saved.rstd[n];
    Number dot = 0;
    for (size_t c = 0; c < C; ++c) dot += dy[c] * x[c] * r;
    *g.gain += dot;                                                                            // y = g·u
    for (size_t c = 0; c < C; ++c) dx[c] = *p.gain * r * (dy[c] - x[c] * r * dot);  // u = x·r
  }
}

// ---- over a channel ----------------------------------------------------------------------------------------

template <class Number>
void batch_forward(Number* y, NormSaved<Number>& saved, const Number* x, const Norm<Number>& p, size_t N, size_t C) {
  saved = {std::vector<Number>(C), std::vector<Number>(C)};
  for (size_t c = 0; c < C; ++c) {
    Number mean = 0, variance = 0;
    for (size_t n = 0; n < N; ++n) mean += x[n * C + c] / Number(N);
    for (size_t n = 0; n < N; ++n) variance += (x[n * C + c] - mean) * (x[n * C + c] - mean) / Number(N);
    if (!p.training) mean = p.running_mean[c], variance = p.running_var[c];
    const Number rstd = Number(1) / std::sqrt(variance + p.eps);
    for (size_t n = 0; n < N; ++n)
      y[n * C + c] = p.gain[c] * (x[n * C + c] - mean) * rstd + (p.bias ? p.bias[c] : Number(0));
    saved.mean[c] = mean, saved.rstd[c] = rstd;
  }
}

template <class Number>
void batch_backward(Number* dx, const Norm<Number>& g, const Number* dy, const Number* x,
                    const NormSaved<Number>& saved, const Norm<Number>& p, size_t N, size_t C) {
  std::vector<Number> xhat(N), dxhat(N);
  for (size_t c = 0; c < C; ++c) {
    Number mean_dxhat = 0, mean_dot = 0, variance = 0;
    for (size_t n = 0; n < N; ++n) {
      const Number d = x[n * C + c] - saved.mean[c];
      xhat[n] = d * saved.rstd[c];
      dxhat[n] = dy[n * C + c] * p.gain[c];        // y = gain·x̂ + bias
      g.gain[c] += dy[n * C + c] * xhat[n];        // y = gain·x̂ + bias
      if (g.bias) g.bias[c] += dy[n * C + c];      // y = gain·x̂ + bias
      mean_dxhat += dxhat[n] / Number(N);          // μ = mean(x)
      mean_dot += dxhat[n] * xhat[n] / Number(N);  // r = (mean((x − μ)²) + eps)^-½
      variance += d * d / Number(N > 1 ? N - 1 : 1);
    }
    for (size_t n = 0; n < N; ++n)  // x̂ = (x − μ)·r
      dx[n * C + c] = saved.rstd[c] * (dxhat[n] - mean_dxhat - xhat[n] * mean_dot);
    p.running_mean[c] = Number(.9) * p.running_mean[c] + Number(.1) * saved.mean[c];
    p.running_var[c] = Number(.9) * p.running_var[c] + Number(.1) * variance;
  }
}

// ---- point by point ----------------------------------------------------------------------------------------

template <class Number>
Number squash(Number u, NormKind kind) {
  return kind == NormKind::dyt ? std::tanh(u) : erf(u);
}
template <class Number>
Number squash_slope(Number u, NormKind kind) {
  if (kind == NormKind::dyt) return Number(1) - std::tanh(u) * std::tanh(u);
  return Number(2 * std::numbers::inv_sqrtpi) * std::exp(-u * u);
}

template <class Number>
void pointwise_forward(Number* y, const Number* x, const Norm<Number>& p, size_t N, size_t C) {
  const Number alpha = *p.alpha, shift = p.shift ? *p.shift : Number(0);
  for (size_t i = 0; i < N * C; ++i)
    y[i] = p.gain[i % C] * squash(alpha * x[i] + shift, p.kind) + (p.bias ? p.bias[i % C] : Number(0));
}

template <class Number>
void pointwise_backward(Number* dx, const Norm<Number>& g, const Number* dy, const Number* x, const Norm<Number>& p,
                        size_t N, size_t C) {
  const Number alpha = *p.alpha, shift = p.shift ? *p.shift : Number(0);
  for (size_t i = 0; i < N * C; ++i) {
    const Number u = alpha * x[i] + shift, du = dy[i] * p.gain[i % C] * squash_slope(u, p.kind);
    g.gain[i % C] += dy[i] * squash(u, p.kind);  // y = gain·f(u) + bias
    if (g.bias) g.bias[i % C] += dy[i];          // y = gain·f(u) + bias
    *g.alpha += du * x[i];                       // u = alpha·x + shift
    if (g.shift) *g.shift += du;                 // u = alpha·x + shift
    dx[i] = alpha * du;                          // u = alpha·x + shift
  }
}

// ---- any of them -------------------------------------------------------------------------------------------

template <class Number>
void norm_forward(Number* y, NormSaved<Number>& saved, const Number* x, const Norm<Number>& p, size_t N, size_t C) {
  if (!p.gain) return void(std::copy_n(x, N * C, y));
  switch (p.kind) {
    case NormKind::layernorm: case NormKind::rmsnorm: return row_forward(y, saved, x, p, N, C);
    case NormKind::scalenorm: return scale_forward(y, saved, x, p, N, C);
    case NormKind::batchnorm: return batch_forward(y, saved, x, p, N, C);
    case NormKind::dyt: case NormKind::derf: return pointwise_forward(y, x, p, N, C);
  }
}

template <class Number>
void norm_backward(Number* dx, const Norm<Number>& g, const Number* dy, const Number* x,
                   const NormSaved<Number>& saved, const Norm<Number>& p, size_t N, size_t C) {
  if (!p.gain) return void(std::copy_n(dy, N * C, dx));
  switch (p.kind) {
    case NormKind::layernorm: case NormKind::rmsnorm: return row_backward(dx, g, dy, x, saved, p, N, C);
    case NormKind::scalenorm: return scale_backward(dx, g, dy, x, saved, p, N, C);
    case NormKind::batchnorm: return batch_backward(dx, g, dy, x, saved, p, N, C);
    case NormKind::dyt: case NormKind::derf: return pointwise_backward(dx, g, dy, x, p, N, C);
  }
}

}  // namespace textbook
