#pragma once
//   qkv (B,T,(H + 2·KV)·D): rows q|k|v   out (B,T,H·D)         query head h reads key/value head h/(H/KV)
//   P (B,H,T,T): kept for backward       multiplier (B,H,T,T): dropout's m, or null for ones
//   forward   S[i,j] = s·q[i]·k[j] for j ≤ i      P = softmax over j     out[i] = Σⱼ m[i,j]·P[i,j]·v[j]
//   backward  dv[j] = Σᵢ m[i,j]·P[i,j]·dout[i]    dP[i,j] = m[i,j]·dout[i]·v[j]     dS = P·(dP − Σⱼ P·dP)
//             dq[i] = s·Σⱼ dS[i,j]·k[j]           dk[j] = s·Σᵢ dS[i,j]·q[i]
//   With a cap S = c·tanh(s·q·k/c) and dS ← dS·(1 − tanh²); with slopes S ← S − slopes[h]·(i − j); with a window only
//   j > i − window count. In this order.

#include <algorithm>
#include <vector>

#include "number.hpp"

namespace textbook {

struct Scoring {
  double scale = 0;  // s; 0: 1/√D
  double cap = 0;
  size_t window = 0;
  std::vector<double> slopes = {};  // (H)

  size_t first_key(size_t i) const { return window > 0 && i >= window ? i - window + 1 : 0; }
  double factor(size_t D) const { return scale > 0 ? scale : 1 / std::sqrt(double(D)); }
};

template <class Number>
void attention_forward(Number* out, Number* P, const Number* qkv, const Number* multiplier, size_t B,
                       size_t T, size_t H, size_t KV, size_t D, const Scoring& scoring = {}) {
  const Number scale = scoring.factor(D), cap = scoring.cap;
  for (size_t row = 0; row < B * H * T; ++row) {  // query i of head h of sequence b
    const size_t i = row % T, h = row / T % H, b = row / T / H, kv = h / (H / KV), first = scoring.first_key(i);
    const auto at = [=](size_t t, size_t head) { return ((b * T + t) * (H + 2 * KV) + head) * D; };
    const Number *q = qkv + at(i, h), *m = multiplier ? multiplier + row * T : nullptr;
    Number *p = P + row * T, *y = out + ((b * T + i) * H + h) * D;
    for (size_t j = first; j <= i; ++j) {
      p[j] = 0;
      for (size_t d = 0; d < D; ++d) p[j] += q[d] * qkv[at(j, H + kv) + d] * scale;
      if (scoring.cap > 0) p[j] = cap * std::tanh(p[j] / cap);
      if (!scoring.slopes.empty()) p[j] -= scoring.slopes[h] * double(i - j);
    }
    Number top = p[first], sum = 0;  // exp(S − top) cannot overflow
    for (size_t j = first + 1; j <= i; ++j) top = larger(top, p[j]);
    for (size_t j = first; j <= i; ++j) sum += std::exp(p[j] - top);
    for (size_t j = 0; j < T; ++j) p[j] = first <= j && j <= i ? std::exp(p[j] - top) / sum : Number(0);
    std::fill_n(y, D, Number(0));
    for (size_t j = first; j <= i; ++j)
      for (size_t d = 0; d < D; ++d) y[d] += (m ? m[j] : Number(1)) * p[j] * qkv[at(j, H + KV + kv) + d];
  }
}

template <class Number>
void attention_backward(Number* dqkv, const Number* dout, const Number* P, const Number* qkv,
                        const Number* multiplier, size_t B, size_t T, size_t H, size_t KV, size_t D,
                        const Scoring& scoring = {}) {
  const Number scale = scoring.factor(D), cap = scoring.cap;
  std::fill_n(dqkv, B * T * (H + 2 * KV) * D, Number(0));
  std::vector<Number> dP(T);
  for (size_t row = 0; row < B * H * T; ++row) {
    const size_t i = row % T, h = row / T % H, b = row / T / H, kv = h / (H / KV);
    const auto at = [=](size_t t, size_t head) { return ((b * T + t) * (H + 2 * KV) + head) * D; };
    const Number *p = P + row * T, *dy = dout + ((b * T + i) * H + h) * D;
    Number sum = 0;
    for (size_t j = 0; j <= i; ++j) {
      const Number m = multiplier ? multiplier[row * T + j] : Number(1);
      dP[j] = 0;
      for (size_t d = 0; d < D; ++d) {
        dP[j] += m * dy[d] * qkv[at(j, H + KV + kv) + d];  // out[i] = Σⱼ m·P[i,j]·v[j]
        dqkv[at(j, H + KV + kv) + d] += m * p[j] * dy[d];  // out[i] = Σⱼ m·P[i,j]·v[j]
      }
      sum += p[j] * dP[j];
    }
    for (size_t j = 0; j <= i; ++j) {
      Number dS = p[j] * (dP[j] - sum);  // P = softmax(S)
      if (scoring.cap > 0) {             // S = c·tanh(s·q·k/c)
        Number product = 0;
        for (size_t d = 0; d < D; ++d) product += qkv[at(i, h) + d] * qkv[at(j, H + kv) + d];
        const Number tanh = std::tanh(product * scale / cap);
        dS *= Number(1) - tanh * tanh;
      }
      for (size_t d = 0; d < D; ++d) {
        dqkv[at(i, h) + d] += dS * scale * qkv[at(j, H + kv) + d];  // S[i,j] = s·q[i]·k[j]
        dqkv[at(j, H + kv) + d] += dS * scale * qkv[at(i, h) + d];  // S[i,j] = s·q[i]·k[j]
      }
    }
  }
}

}  // namespace textbook
