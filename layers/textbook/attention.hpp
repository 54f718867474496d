#pragma once
//   qkv (B,T,(H + 2·KV)·D): rows q|k|v   out (B,T,H·D)         query head h reads key/value head h/(H/KV)
//   P (B,H,T,T): kept for backward       multiplier (B,H,T,T): dropout's m, or null for ones
//   forward   S[i,j] = s·q[i]·k[j] for j ≤ i      P = softmax over j     out[i] = Σⱼ m[i,j]·P[i,j]·v[j]
//   backward  dv[j] = Σᵢ m[i,j]·P[i,j]·dout[i]    dP[i,j] = m[i,j]·dout[i]·v[j]     dS = P·(dP − Σⱼ P·dP)
//             dq[i] = s·Σⱼ dS[i,j]·k[j]           dk[j] = s·Σᵢ dS[i,j]·q[i]
// s = 1/√D; what else may be done to a score, and which keys a window hides, is in scores.hpp.

#include <algorithm>
#include <vector>

#include "scores.hpp"
#include "softmax.hpp"

namespace textbook {

template <class Number>
void attention_forward(Number* out, Number* P, const Number* qkv, const Number* multiplier, size_t B,
                       size_t T, size_t H, size_t KV, size_t D, const Scoring& scoring = {}) {
  std::fill_n(P, B * H * T * T, Number(0));
  std::fill_n(out, B * T * H * D, Number(0));
  for (size_t row = 0; row < B * H * T; ++row) {  // query i of head h of sequence b
    const size_t i = row % T, h = row / T % H, b = row / T / H, key = H + h / (H / KV), value = key + KV;
    const auto at = [=](size_t t, size_t head) { return ((b * T + t) * (H + 2 * KV) + head) * D; };
    const size_t first = scoring.first_key(i);
    Number *p = P + row * T, *y = out + ((b * T + i) * H + h) * D;
    for (size_t j = first; j <= i; ++j) p[j] = score(qkv + at(i, h), qkv + at(j, key), D, h, i - j, scoring);
    softmax_forward(p + first, p + first, i + 1 - first);
    for (size_t j = first; j <= i; ++j)
      add(y, (multiplier ? multiplier[row * T + j] : Number(1)) * p[j], qkv + at(j, value), D);
  }
}

template <class Number>
void attention_backward(Number* dqkv, const Number* dout, const Number* P, const Number* qkv,
                        const Number* multiplier, size_t B, size_t T, size_t H, size_t KV, size_t D,
                        const Scoring& scoring = {}) {
  std::fill_n(dqkv, B * T * (H + 2 * KV) * D, Number(0));
  std::vector<Number> dP(T), dS(T);
  for (size_t row = 0; row < B * H * T; ++row) {
    const size_t i = row % T, h = row / T % H, b = row / T / H, key = H + h / (H / KV), value = key + KV;
    const auto at = [=](size_t t, size_t head) { return ((b * T + t) * (H + 2 * KV) + head) * D; };
    const Number *p = P + row * T, *dy = dout + ((b * T + i) * H + h) * D;
    for (size_t j = 0; j <= i; ++j) {
      const Number m = multiplier ? multiplier[row * T + j] : Number(1);
      dP[j] = m * dot(dy, qkv + at(j, value), D);  // out[i] = Σⱼ m·P[i,j]·v[j]
      add(dqkv + at(j, value), m * p[j], dy, D);   // out[i] = Σⱼ m·P[i,j]·v[j]
    }
    softmax_backward(dS.data(), dP.data(), p, i + 1);  // P = softmax(S)
    for (size_t j = 0; j <= i; ++j) {
      dS[j] *= score_slope(qkv + at(i, h), qkv + at(j, key), D, scoring);
      add(dqkv + at(i, h), dS[j], qkv + at(j, key), D);  // S[i,j] = s·q[i]·k[j]
      add(dqkv + at(j, key), dS[j], qkv + at(i, h), D);  // S[i,j] = s·q[i]·k[j]
    }
  }
}

}  // namespace textbook
