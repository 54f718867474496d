#pragma once
// The norms, and QK-norm, which applies them to queries and keys.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "layers/config/config.hpp"
#include "number.hpp"

namespace textbook {

// ---- parameters ----------------------------------------------------------------------------------------------

// Norm: the parameters of a norm, or their gradients. An absent norm is the identity.
// NormSaved: what forward saves for backward.

template <class Number>
struct Norm {
  NormKind kind = NormKind::layernorm;
  Number eps = 0, *gain = nullptr, *bias = nullptr;        // gain (C), ScaleNorm (1); bias (C) or none
  bool gainless = false, unit_offset = false;              // LayerNorm, RMSNorm: the gain is 1; it is 1 + gain[c]
  Number *alpha = nullptr, *shift = nullptr;               // (1) each; DyT has alpha, Derf has both
  Number *running_mean = nullptr, *running_var = nullptr;  // (C) each: BatchNorm
  Number *down = nullptr, *up = nullptr;                   // (rank,C), (C,rank): GatedNorm
  size_t rank = 0;
  bool training = true;                                    // BatchNorm: normalizes by the statistics of this batch

  bool present() const { return gain || gainless; }
  Number gain_at(size_t c) const { return gainless ? Number(1) : unit_offset ? Number(1) + gain[c] : gain[c]; }
  Number bias_at(size_t c) const { return bias ? bias[c] : Number(0); }
};

template <class Number>
struct NormSaved {
  std::vector<Number> mean, rstd;  // μ and r: (N) each, BatchNorm (C)
};

// ---- LayerNorm and RMSNorm -----------------------------------------------------------------------------------

// LayerNorm and RMSNorm normalize each row by its own statistics.
//   x, y (N,C)   gain (C)   bias (C) or null
//   forward   y = gain·x̂ + bias      x̂ = (x − μ)·r      r = (mean((x − μ)²) + eps)^-½      means over a row
//             LayerNorm: μ = mean(x)      RMSNorm: μ = 0      gain = 1 + w with a unit offset
//   backward  dx = r·(dx̂ − mean(dx̂) − x̂·mean(dx̂·x̂))      dx̂ = dy·gain      RMSNorm: without mean(dx̂)
//             dgain += Σₙ dy·x̂      dbias += Σₙ dy

template <class Number>
void row_forward(Number* y, NormSaved<Number>& saved, const Number* x, const Norm<Number>& p, size_t N, size_t C) {
  saved = {std::vector<Number>(N), std::vector<Number>(N)};
  for (size_t n = 0; n < N; ++n, x += C, y += C) {
    Number mean = 0, variance = 0;
    for (size_t c = 0; c < C && p.kind == NormKind::layernorm; ++c) mean += x[c] / Number(C);
    for (size_t c = 0; c < C; ++c) variance += (x[c] - mean) * (x[c] - mean) / Number(C);
    const Number rstd = Number(1) / std::sqrt(variance + p.eps);
    for (size_t c = 0; c < C; ++c) y[c] = p.gain_at(c) * (x[c] - mean) * rstd + p.bias_at(c);
    saved.mean[n] = mean;
    saved.rstd[n] = rstd;
  }
}

template <class Number>
void row_backward(Number* dx, const Norm<Number>& g, const Number* dy, const Number* x,
                  const NormSaved<Number>& saved, const Norm<Number>& p, size_t N, size_t C) {
  std::vector<Number> xhat(C), dxhat(C);
  for (size_t n = 0; n < N; ++n, x += C, dy += C, dx += C) {
    Number mean_dxhat = 0, mean_dot = 0;
    for (size_t c = 0; c < C; ++c) {
      xhat[c] = (x[c] - saved.mean[n]) * saved.rstd[n];
      dxhat[c] = dy[c] * p.gain_at(c);                                        // y = gain·x̂ + bias
      if (g.gain) g.gain[c] += dy[c] * xhat[c];                               // y = gain·x̂ + bias
      if (g.bias) g.bias[c] += dy[c];                                         // y = gain·x̂ + bias
      if (p.kind == NormKind::layernorm) mean_dxhat += dxhat[c] / Number(C);  // μ = mean(x)
      mean_dot += dxhat[c] * xhat[c] / Number(C);                             // r = (mean((x − μ)²) + eps)^-½
    }
    for (size_t c = 0; c < C; ++c)  // x̂ = (x − μ)·r
      dx[c] = saved.rstd[n] * (dxhat[c] - mean_dxhat - xhat[c] * mean_dot);
  }
}

// ---- ScaleNorm -----------------------------------------------------------------------------------------------

// ScaleNorm divides each row by its length.
//   x, y (N,C)   gain g (1)
//   forward   y = g·u      u = x·r      r = (Σx² + C·eps)^-½
//   backward  dx = g·r·(dy − u·Σ dy·u)      dg += Σₙ Σ dy·u

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
    *g.gain += dot;                                                                 // y = g·u
    for (size_t c = 0; c < C; ++c) dx[c] = *p.gain * r * (dy[c] - x[c] * r * dot);  // u = x·r
  }
}

// ---- BatchNorm -----------------------------------------------------------------------------------------------

// BatchNorm normalizes each channel by its statistics over the batch.
//   x, y (N,C)   gain, bias, running_mean, running_var (C)
//   forward   as LayerNorm, with means over the N rows; evaluation uses running_mean and running_var instead
//   backward  as LayerNorm, with means over the N rows
//             running_mean ← .9·running_mean + .1·μ      running_var ← .9·running_var + .1·var·N/(N − 1)

template <class Number>
void batch_forward(Number* y, NormSaved<Number>& saved, const Number* x, const Norm<Number>& p, size_t N, size_t C) {
  saved = {std::vector<Number>(C), std::vector<Number>(C)};
  for (size_t c = 0; c < C; ++c) {
    Number mean = 0, var = 0;
    for (size_t i = c; i < N * C; i += C) mean += x[i] / Number(N);
    for (size_t i = c; i < N * C; i += C) var += (x[i] - mean) * (x[i] - mean) / Number(N);
    if (!p.training) {
      mean = p.running_mean[c];
      var = p.running_var[c];
    }
    const Number rstd = Number(1) / std::sqrt(var + p.eps);
    for (size_t i = c; i < N * C; i += C) y[i] = p.gain[c] * (x[i] - mean) * rstd + p.bias_at(c);
    saved.mean[c] = mean;
    saved.rstd[c] = rstd;
  }
}

template <class Number>
void batch_backward(Number* dx, const Norm<Number>& g, const Number* dy, const Number* x,
                    const NormSaved<Number>& saved, const Norm<Number>& p, size_t N, size_t C) {
  for (size_t c = 0; c < C; ++c) {
    const Number gain = p.gain[c], mean = saved.mean[c], rstd = saved.rstd[c];
    Number mean_dxhat = 0, mean_dot = 0, unbiased = 0;
    for (size_t i = c; i < N * C; i += C) {
      const Number xhat = (x[i] - mean) * rstd, dxhat = dy[i] * gain;  // y = gain·x̂ + bias
      g.gain[c] += dy[i] * xhat;                                       // y = gain·x̂ + bias
      if (g.bias) g.bias[c] += dy[i];                                  // y = gain·x̂ + bias
      mean_dxhat += dxhat / Number(N);                                 // μ = mean(x)
      mean_dot += dxhat * xhat / Number(N);                            // r = (mean((x − μ)²) + eps)^-½
      unbiased += (x[i] - mean) * (x[i] - mean) / Number(N > 1 ? N - 1 : 1);
    }
    for (size_t i = c; i < N * C; i += C)  // x̂ = (x − μ)·r
      dx[i] = rstd * (dy[i] * gain - mean_dxhat - (x[i] - mean) * rstd * mean_dot);
    p.running_mean[c] = Number(.9) * p.running_mean[c] + Number(.1) * mean;
    p.running_var[c] = Number(.9) * p.running_var[c] + Number(.1) * unbiased;
  }
}

// ---- DyT and Derf --------------------------------------------------------------------------------------------

// DyT and Derf apply an S-shaped function to each number.
//   x, y (N,C)   gain (C)   bias (C) or null   alpha, shift (1)
//   forward   y = gain·f(u) + bias      u = alpha·x + shift      DyT: f = tanh, shift = 0      Derf: f = erf
//   backward  du = dy·gain·f'(u)     dx = alpha·du     dalpha += Σ du·x     dshift += Σ du
//             dgain += Σₙ dy·f(u)    dbias += Σₙ dy    tanh' = 1 − tanh²    erf'(u) = 2/√π·e^(−u²)

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
    y[i] = p.gain[i % C] * squash(alpha * x[i] + shift, p.kind) + p.bias_at(i % C);
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

// ---- GatedNorm -----------------------------------------------------------------------------------------------

// GatedNorm is RMSNorm, times a gate that reads the whole row.
//   x, y (N,C)   gain (C)   bias (C) or null   down (rank,C)   up (C,rank)
//   forward   v = RMSNorm(x)     a = v downᵀ     s = a·σ(a)     z = s upᵀ     y = σ(z)·v
//   backward  dz = dy·v·σ(z)(1 − σ(z))               dup += Σₙ dz s       ds = dz up
//             da = ds·(σ(a) + a·σ(a)(1 − σ(a)))      ddown += Σₙ da v     dv = dy·σ(z) + da down
//             dx, dgain and dbias as RMSNorm's, with dv for dy

// What the gate computes of one row v.
template <class Number>
struct Gate {
  std::vector<Number> a, s, z;
};
template <class Number>
Gate<Number> gate_of(const Number* v, const Norm<Number>& p, size_t C) {
  Gate<Number> gate{std::vector<Number>(p.rank), std::vector<Number>(p.rank), std::vector<Number>(C)};
  for (size_t j = 0; j < p.rank; ++j) {
    for (size_t c = 0; c < C; ++c) gate.a[j] += v[c] * p.down[j * C + c];
    gate.s[j] = gate.a[j] * sigmoid(gate.a[j]);
  }
  for (size_t c = 0; c < C; ++c)
    for (size_t j = 0; j < p.rank; ++j) gate.z[c] += gate.s[j] * p.up[c * p.rank + j];
  return gate;
}

template <class Number>
void gated_forward(Number* y, NormSaved<Number>& saved, const Number* x, const Norm<Number>& p, size_t N, size_t C) {
  row_forward(y, saved, x, p, N, C);  // v
  for (size_t n = 0; n < N; ++n, y += C) {
    const Gate<Number> gate = gate_of(y, p, C);
    for (size_t c = 0; c < C; ++c) y[c] *= sigmoid(gate.z[c]);
  }
}

template <class Number>
void gated_backward(Number* dx, const Norm<Number>& g, const Number* dy, const Number* x,
                    const NormSaved<Number>& saved, const Norm<Number>& p, size_t N, size_t C) {
  NormSaved<Number> unused;
  std::vector<Number> v(N * C), dv(N * C), ds(p.rank);
  row_forward(v.data(), unused, x, p, N, C);
  for (size_t n = 0; n < N; ++n) {
    const Number *vn = &v[n * C], *dyn = dy + n * C;
    const Gate<Number> gate = gate_of(vn, p, C);
    std::fill(ds.begin(), ds.end(), Number(0));
    for (size_t c = 0; c < C; ++c) {
      const Number open = sigmoid(gate.z[c]), dz = dyn[c] * vn[c] * open * (Number(1) - open);  // y = σ(z)·v
      dv[n * C + c] = dyn[c] * open;                                                           // y = σ(z)·v
      for (size_t j = 0; j < p.rank; ++j) {
        g.up[c * p.rank + j] += dz * gate.s[j];  // z = s upᵀ
        ds[j] += dz * p.up[c * p.rank + j];      // z = s upᵀ
      }
    }
    for (size_t j = 0; j < p.rank; ++j) {
      const Number a = gate.a[j], open = sigmoid(a);
      const Number da = ds[j] * (open + a * open * (Number(1) - open));  // s = a·σ(a)
      for (size_t c = 0; c < C; ++c) {
        g.down[j * C + c] += da * vn[c];          // a = v downᵀ
        dv[n * C + c] += da * p.down[j * C + c];  // a = v downᵀ
      }
    }
  }
  row_backward(dx, g, dv.data(), x, saved, p, N, C);  // v = RMSNorm(x)
}

// ---- any norm ------------------------------------------------------------------------------------------------

// norm_forward and norm_backward call the functions of the norm's kind. An absent norm is the identity.
//   x, y (N,C)

template <class Number>
void norm_forward(Number* y, NormSaved<Number>& saved, const Number* x, const Norm<Number>& p, size_t N, size_t C) {
  if (!p.present()) {
    std::copy_n(x, N * C, y);
    return;
  }
  switch (p.kind) {
    case NormKind::layernorm: case NormKind::rmsnorm: return row_forward(y, saved, x, p, N, C);
    case NormKind::scalenorm: return scale_forward(y, saved, x, p, N, C);
    case NormKind::batchnorm: return batch_forward(y, saved, x, p, N, C);
    case NormKind::dyt: case NormKind::derf: return pointwise_forward(y, x, p, N, C);
    case NormKind::gatednorm: return gated_forward(y, saved, x, p, N, C);
  }
}

template <class Number>
void norm_backward(Number* dx, const Norm<Number>& g, const Number* dy, const Number* x,
                   const NormSaved<Number>& saved, const Norm<Number>& p, size_t N, size_t C) {
  if (!p.present()) {
    std::copy_n(dy, N * C, dx);
    return;
  }
  switch (p.kind) {
    case NormKind::layernorm: case NormKind::rmsnorm: return row_backward(dx, g, dy, x, saved, p, N, C);
    case NormKind::scalenorm: return scale_backward(dx, g, dy, x, saved, p, N, C);
    case NormKind::batchnorm: return batch_backward(dx, g, dy, x, saved, p, N, C);
    case NormKind::dyt: case NormKind::derf: return pointwise_backward(dx, g, dy, x, p, N, C);
    case NormKind::gatednorm: return gated_backward(dx, g, dy, x, saved, p, N, C);
  }
}

// ---- QK-norm -------------------------------------------------------------------------------------------------

// QK-norm normalizes the queries or the keys, in place.
//   x (N,stride)   each row begins with `count` parts of `width` numbers: the heads, or the whole of q or k (count 1)
//   gain (width)   shared by all parts
//   forward   each part ← norm(part)
//   backward  the norm's backward, for each part

template <class Number>
struct QkNormSaved {
  std::vector<Number> x;                // (N,count,width): the input of the norm
  std::vector<NormSaved<Number>> norm;  // one for each part
};

template <class Number>
void qk_norm_forward(Number* x, QkNormSaved<Number>& saved, const Norm<Number>& p, size_t N, size_t count, size_t width,
                     size_t stride) {
  saved = {std::vector<Number>(N * count * width), std::vector<NormSaved<Number>>(N * count)};
  for (size_t part = 0; part < N * count; ++part) {
    Number* here = x + part / count * stride + part % count * width;
    std::copy_n(here, width, &saved.x[part * width]);
    norm_forward(here, saved.norm[part], &saved.x[part * width], p, 1, width);
  }
}

template <class Number>
void qk_norm_backward(Number* dx, const Norm<Number>& g, const QkNormSaved<Number>& saved, const Norm<Number>& p,
                      size_t N, size_t count, size_t width, size_t stride) {
  for (size_t part = 0; part < N * count; ++part) {
    Number* here = dx + part / count * stride + part % count * width;
    const std::vector<Number> dy(here, here + width);
    norm_backward(here, g, dy.data(), &saved.x[part * width], saved.norm[part], p, 1, width);
  }
}

}  // namespace textbook
