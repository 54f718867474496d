#pragma once
//   qkv (B,T,(H + 2·KV)·D): rows q|k|v   out (B,T,H·D)         query head h reads key/value head h/(H/KV)
//   P (B,H,T,T): kept for backward       multiplier (B,H,T,T): dropout's m, or null for ones
//   forward   S[i,j] = q[i]·k[j]/√D for j ≤ i     P = softmax over j     out[i] = Σⱼ m[i,j]·P[i,j]·v[j]
//   backward  dv[j] = Σᵢ m[i,j]·P[i,j]·dout[i]    dP[i,j] = m[i,j]·dout[i]·v[j]     dS = P·(dP − Σⱼ P·dP)
//             dq[i] = Σⱼ dS[i,j]·k[j]/√D          dk[j] = Σᵢ dS[i,j]·q[i]/√D

#include <algorithm>
#include <vector>

#include "number.hpp"

namespace textbook {

template <class Number>
void attention_forward(Number* out, Number* P, const Number* qkv, const Number* multiplier, size_t B,
                       size_t T, size_t H, size_t KV, size_t D) {
  const Number scale = 1 / std::sqrt(double(D));
  for (size_t row = 0; row < B * H * T; ++row) {  // query i of head h of sequence b
    const size_t i = row % T, h = row / T % H, b = row / T / H, kv = h / (H / KV);
    const auto at = [=](size_t t, size_t head) { return ((b * T + t) * (H + 2 * KV) + head) * D; };
    const Number *q = qkv + at(i, h), *m = multiplier ? multiplier + row * T : nullptr;
    Number *p = P + row * T, *y = out + ((b * T + i) * H + h) * D;
    for (size_t j = 0; j <= i; ++j) {
      p[j] = 0;
      for (size_t d = 0; d < D; ++d) p[j] += q[d] * qkv[at(j, H + kv) + d] * scale;
    }
    Number top = p[0], sum = 0;  // exp(S − top) cannot overflow
    for (size_t j = 1; j <= i; ++j) top = larger(top, p[j]);
    for (size_t j = 0; j <= i; ++j) sum += std::exp(p[j] - top);
    for (size_t j = 0; j < T; ++j) p[j] = j <= i ? std::exp(p[j] - top) / sum : Number(0);
    std::fill_n(y, D, Number(0));
    for (size_t j = 0; j <= i; ++j)
      for (size_t d = 0; d < D; ++d) y[d] += (m ? m[j] : Number(1)) * p[j] * qkv[at(j, H + KV + kv) + d];
  }
}

template <class Number>
void attention_backward(Number* dqkv, const Number* dout, const Number* P, const Number* qkv,
                        const Number* multiplier, size_t B, size_t T, size_t H, size_t KV, size_t D) {
  const Number scale = 1 / std::sqrt(double(D));
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
      const Number dS = p[j] * (dP[j] - sum);  // P = softmax(S)
      for (size_t d = 0; d < D; ++d) {
        dqkv[at(i, h) + d] += dS * scale * qkv[at(j, H + kv) + d];  // S[i,j] = q[i]·k[j]/√D
        dqkv[at(j, H + kv) + d] += dS * scale * qkv[at(i, h) + d];  // S[i,j] = q[i]·k[j]/√D
      }
    }
  }
}

}  // namespace textbook
