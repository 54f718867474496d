#pragma once
// Self-attention with several heads, causal or bidirectional.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "number.hpp"
#include "position.hpp"

namespace textbook {

// ---- softmax -------------------------------------------------------------------------------------------------

//   x, p (n): one row
//   forward   p[i] = exp(x[i]) / Σⱼ exp(x[j])
//   backward  dx = p·(dp − Σⱼ p[j]·dp[j])
// Subtracting the largest x first does not change p, and keeps exp from overflowing. p may be x, and dx may be dp.
// With a sink, the row has one more x, whose p is left out: the others sum to less than 1. Its dp is 0, so backward
// holds as it is.

template <class Number>
void softmax_forward(Number* p, const Number* x, size_t n, const Number* sink = nullptr) {
  Number top = sink ? *sink : x[0], sum = 0;
  for (size_t i = 0; i < n; ++i) top = larger(top, x[i]);
  for (size_t i = 0; i < n; ++i) {
    p[i] = std::exp(x[i] - top);
    sum += p[i];
  }
  if (sink) sum += std::exp(*sink - top);
  for (size_t i = 0; i < n; ++i) p[i] /= sum;
}

template <class Number>
void softmax_backward(Number* dx, const Number* dp, const Number* p, size_t n) {
  const Number sum = dot(p, dp, n);
  for (size_t i = 0; i < n; ++i) dx[i] = p[i] * (dp[i] - sum);  // ∂p[j]/∂x[i] = p[j]·([i = j] − p[i])
}

// ---- scores --------------------------------------------------------------------------------------------------

// The score S of query i and key j in head h.
//   q, k (D)
//   forward   S = s·q·k                    s = 1/√D, or another scale
//             S ← c·tanh(S/c)              with a cap c
//             S ← S − slopes[h]·|i − j|    with ALiBi's slopes
//   backward  ∂S/∂(q·k) = s                with a cap s·(1 − tanh²(s·q·k/c))
// Query i reads the keys from first_key to end_of_keys: j ≤ i if attention is causal, otherwise all. With a window, it
// reads only the keys |i − j| < window. If a row holds several examples, query i of row b reads only the keys
// j ≥ begins[b,i] of its own example. Relative positions add their number last (`attention_forward`).

struct Scoring {
  double scale = 0;  // 0: 1/√D
  double cap = 0;
  size_t window = 0;
  std::vector<double> slopes = {};  // (H)
  const int* begins = nullptr;      // (B,T) where each token's example begins; null: every row is one example
  bool causal = true;

  size_t first_key(size_t b, size_t i, size_t T) const {
    const size_t of_example = begins ? begins[b * T + i] : 0;
    const size_t of_window = window > 0 && i >= window ? i - window + 1 : 0;
    return std::max(of_example, of_window);
  }
  size_t end_of_keys(size_t b, size_t i, size_t T) const {
    size_t end = i + 1;
    const auto sees_next = [&] {
      return end < T && (window == 0 || end < i + window) && (!begins || begins[b * T + end] == begins[b * T + i]);
    };
    while (!causal && sees_next()) ++end;
    return end;
  }
  double factor(size_t D) const { return scale > 0 ? scale : 1 / std::sqrt(double(D)); }
};

inline size_t distance(size_t i, size_t j) { return i > j ? i - j : j - i; }

template <class Number>
Number score(const Number* q, const Number* k, size_t D, size_t h, size_t distance, const Scoring& scoring) {
  const Number scale = scoring.factor(D), cap = scoring.cap;
  Number S = scale * dot(q, k, D);
  if (scoring.cap > 0) S = cap * std::tanh(S / cap);
  if (!scoring.slopes.empty()) S -= scoring.slopes[h] * double(distance);
  return S;
}

template <class Number>
Number score_slope(const Number* q, const Number* k, size_t D, const Scoring& scoring) {
  const Number scale = scoring.factor(D), cap = scoring.cap;
  if (scoring.cap == 0) return scale;                          // S = s·q·k
  const Number tanh = std::tanh(scale * dot(q, k, D) / cap);
  return scale * (Number(1) - tanh * tanh);                    // S = c·tanh(s·q·k/c)
}

// ---- attention -----------------------------------------------------------------------------------------------

//   qkv (B,T,(H + 2·KV)·D): rows q|k|v   out (B,T,H·D)         query head h reads key/value head h/(H/KV)
//   P (B,H,T,T): saved for backward      multiplier (B,H,T,T): dropout's m, or null for ones
//   forward   S[i,j] = s·q[i]·k[j] for seen j     P = softmax over j     out[i] = Σⱼ m[i,j]·P[i,j]·v[j]
//   backward  dv[j] = Σᵢ m[i,j]·P[i,j]·dout[i]    dP[i,j] = m[i,j]·dout[i]·v[j]     dS = P·(dP − Σⱼ P·dP)
//             dq[i] = s·Σⱼ dS[i,j]·k[j]           dk[j] = s·Σᵢ dS[i,j]·q[i]
// `Scoring` can set another s than 1/√D, cap the scores, add ALiBi and limit the keys to a window or an example, or
// show a query the keys after it, too. sinks (H), if given, has one more score for each row of a head. The table of
// relative positions, if there is one, adds its number to a score and gets its gradient: dtable[b,h] += Σ dS[i,j] over
// all i, j of bucket b.

struct AttentionShape {
  size_t B, T, H, KV, D;
};

// Relative positions: the table (buckets,H) or its gradient, null if there are none.
template <class Number>
struct Relative {
  Number* table = nullptr;
  RelativeRule rule = {};

  Number& at(size_t i, size_t j, size_t h, size_t H) const { return table[relative_bucket(i, j, rule) * H + h]; }
};

template <class Number>
void attention_forward(Number* out, Number* P, const Number* qkv, const Number* multiplier,
                       const AttentionShape& shape, const Scoring& scoring = {}, const Number* sinks = nullptr,
                       const Relative<Number>& relative = {}) {
  const size_t B = shape.B, T = shape.T, H = shape.H, KV = shape.KV, D = shape.D;
  std::fill_n(P, B * H * T * T, Number(0));
  std::fill_n(out, B * T * H * D, Number(0));
  for (size_t row = 0; row < B * H * T; ++row) {  // query i of head h of sequence b
    const size_t i = row % T, h = row / T % H, b = row / T / H, key = H + h / (H / KV), value = key + KV;
    const auto at = [=](size_t t, size_t head) { return ((b * T + t) * (H + 2 * KV) + head) * D; };
    const size_t first = scoring.first_key(b, i, T), end = scoring.end_of_keys(b, i, T);
    Number *p = P + row * T, *y = out + ((b * T + i) * H + h) * D;
    for (size_t j = first; j < end; ++j) {
      p[j] = score(qkv + at(i, h), qkv + at(j, key), D, h, distance(i, j), scoring);
      if (relative.table) p[j] += relative.at(i, j, h, H);
    }
    softmax_forward(p + first, p + first, end - first, sinks ? sinks + h : nullptr);
    for (size_t j = first; j < end; ++j)
      add(y, (multiplier ? multiplier[row * T + j] : Number(1)) * p[j], qkv + at(j, value), D);
  }
}

template <class Number>
void attention_backward(Number* dqkv, const Number* dout, const Number* P, const Number* qkv,
                        const Number* multiplier, const AttentionShape& shape, const Scoring& scoring = {},
                        const Relative<Number>& drelative = {}) {
  const size_t B = shape.B, T = shape.T, H = shape.H, KV = shape.KV, D = shape.D;
  std::fill_n(dqkv, B * T * (H + 2 * KV) * D, Number(0));
  std::vector<Number> dP(T), dS(T);
  for (size_t row = 0; row < B * H * T; ++row) {
    const size_t i = row % T, h = row / T % H, b = row / T / H, key = H + h / (H / KV), value = key + KV;
    const auto at = [=](size_t t, size_t head) { return ((b * T + t) * (H + 2 * KV) + head) * D; };
    const Number *p = P + row * T, *dy = dout + ((b * T + i) * H + h) * D;
    const size_t end = scoring.end_of_keys(b, i, T);
    for (size_t j = 0; j < end; ++j) {
      const Number m = multiplier ? multiplier[row * T + j] : Number(1);
      dP[j] = m * dot(dy, qkv + at(j, value), D);  // out[i] = Σⱼ m·P[i,j]·v[j]
      add(dqkv + at(j, value), m * p[j], dy, D);   // out[i] = Σⱼ m·P[i,j]·v[j]
    }
    softmax_backward(dS.data(), dP.data(), p, end);  // P = softmax(S)
    for (size_t j = 0; j < end; ++j) {
      if (drelative.table) drelative.at(i, j, h, H) += dS[j];  // S[i,j] += table[b,h]
      dS[j] *= score_slope(qkv + at(i, h), qkv + at(j, key), D, scoring);
      add(dqkv + at(i, h), dS[j], qkv + at(j, key), D);  // S[i,j] = s·q[i]·k[j]
      add(dqkv + at(j, key), dS[j], qkv + at(i, h), D);  // S[i,j] = s·q[i]·k[j]
    }
  }
}

// ---- sinks ---------------------------------------------------------------------------------------------------

// The gradients of the sinks. attention_backward holds as it is, and cross_attention_backward.
//   out (B,T,H·D)   P (B,H,T,S) for S keys   dsinks (H)
//   backward  dsinks[h] += Σᵢ p·(0 − Δ[i])    p = 1 − Σⱼ P[i,j], the sink's weight    Δ[i] = Σⱼ P·dP = dout[i]·out[i]

template <class Number>
void sinks_backward(Number* dsinks, const Number* dout, const Number* out, const Number* P,
                    const AttentionShape& shape, size_t S) {
  const size_t T = shape.T, H = shape.H, D = shape.D;
  for (size_t row = 0; row < shape.B * H * T; ++row) {
    const size_t i = row % T, h = row / T % H, b = row / T / H, at = ((b * T + i) * H + h) * D;
    Number p = 1;
    for (size_t j = 0; j < S; ++j) p -= P[row * S + j];
    dsinks[h] -= p * dot(dout + at, out + at, D);
  }
}

// ---- output gate ---------------------------------------------------------------------------------------------

// Output gate: each number of attention's output times the sigmoid of its gate, or of its head's gate if headwise.
//   h, y (N,H·D)   z (N,H·D), or (N,H) if headwise
//   forward   y  = σ(z)·h
//   backward  dh = σ(z)·dy      dz = dy·h·σ(1 − σ), summed over the D numbers of a head if headwise

template <class Number>
void output_gate_forward(Number* y, const Number* h, const Number* z, size_t N, size_t H, size_t D, bool headwise) {
  for (size_t i = 0; i < N * H * D; ++i) y[i] = h[i] / (Number(1) + std::exp(-z[headwise ? i / D : i]));
}

// d holds dy and then dh.
template <class Number>
void output_gate_backward(Number* d, Number* dz, const Number* h, const Number* z, size_t N, size_t H, size_t D,
                          bool headwise) {
  std::fill_n(dz, headwise ? N * H : N * H * D, Number(0));
  for (size_t i = 0; i < N * H * D; ++i) {
    const size_t gate = headwise ? i / D : i;
    const Number sigmoid = Number(1) / (Number(1) + std::exp(-z[gate]));
    dz[gate] += d[i] * h[i] * sigmoid * (Number(1) - sigmoid);  // y = σ(z)·h
    d[i] *= sigmoid;                                            // y = σ(z)·h
  }
}

// ---- head scale ----------------------------------------------------------------------------------------------

// Head scale: each head of attention's output times a learned factor.
//   x, y (N,H·D)   c (H)
//   forward   y[n,h] = c[h]·x[n,h]
//   backward  dx[n,h] = c[h]·dy[n,h]      dc[h] += Σₙ dy[n,h]·x[n,h]
// dx may be dy.

template <class Number>
void head_scale_forward(Number* y, const Number* x, const Number* c, size_t N, size_t H, size_t D) {
  for (size_t i = 0; i < N * H * D; ++i) y[i] = c[i / D % H] * x[i];
}

template <class Number>
void head_scale_backward(Number* dx, Number* dc, const Number* dy, const Number* x, const Number* c, size_t N,
                         size_t H, size_t D) {
  for (size_t i = 0; i < N * H * D; ++i) {
    const size_t h = i / D % H;
    dc[h] += dy[i] * x[i];  // y = c[h]·x
    dx[i] = c[h] * dy[i];   // y = c[h]·x
  }
}

}  // namespace textbook
