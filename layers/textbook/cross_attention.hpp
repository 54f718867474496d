#pragma once
// Cross attention: the queries of one sequence read the keys and values of another.

#include "attention.hpp"

namespace textbook {

// ---- cross attention -----------------------------------------------------------------------------------------

//   q (B,T,H·D)   kv (B,S,2·KV·D): rows k|v   out (B,T,H·D)    query head h reads key/value head h/(H/KV)
//   P (B,H,T,S): saved for backward           multiplier (B,H,T,S): dropout's m
//   forward   S[i,j] = s·q[i]·k[j] for from[i] ≤ j < to[i]     P = softmax over j    out[i] = Σⱼ m[i,j]·P[i,j]·v[j]
//   backward  dv[j] = Σᵢ m[i,j]·P[i,j]·dout[i]    dP[i,j] = m[i,j]·dout[i]·v[j]      dS = P·(dP − Σⱼ P·dP)
//             dq[i] = s·Σⱼ dS[i,j]·k[j]           dk[j] = s·Σᵢ dS[i,j]·q[i]
// Queries and keys are of different texts, so their positions play no part. The shape's `scoring` sets s and the cap.
// sinks (H), if given, has one more score for each row of a head.

struct CrossShape {
  size_t B, T, S, H, KV, D;
  const int *from, *to;  // (B,T) for each query, the first key of its source and the end
  Scoring scoring = {};

  size_t q_at(size_t b, size_t i, size_t h) const { return ((b * T + i) * H + h) * D; }
  size_t k_at(size_t b, size_t j, size_t h) const { return ((b * S + j) * 2 * KV + h / (H / KV)) * D; }
  size_t v_at(size_t b, size_t j, size_t h) const { return k_at(b, j, h) + KV * D; }
};

template <class Number>
void cross_attention_forward(Number* out, Number* P, const Number* q, const Number* kv, const Number* multiplier,
                             const CrossShape& shape, const Number* sinks = nullptr) {
  const size_t B = shape.B, T = shape.T, S = shape.S, H = shape.H, D = shape.D;
  std::fill_n(P, B * H * T * S, Number(0));
  std::fill_n(out, B * T * H * D, Number(0));
  for (size_t row = 0; row < B * H * T; ++row) {  // query i of head h of sequence b
    const size_t i = row % T, h = row / T % H, b = row / T / H, at = shape.q_at(b, i, h);
    const size_t first = shape.from[b * T + i], end = shape.to[b * T + i];
    Number* p = P + row * S;
    for (size_t j = first; j < end; ++j) p[j] = score(q + at, kv + shape.k_at(b, j, h), D, h, 0, shape.scoring);
    softmax_forward(p + first, p + first, end - first, sinks ? sinks + h : nullptr);
    for (size_t j = first; j < end; ++j) add(out + at, multiplier[row * S + j] * p[j], kv + shape.v_at(b, j, h), D);
  }
}

template <class Number>
void cross_attention_backward(Number* dq, Number* dkv, const Number* dout, const Number* P, const Number* q,
                              const Number* kv, const Number* multiplier, const CrossShape& shape) {
  const size_t B = shape.B, T = shape.T, S = shape.S, H = shape.H, D = shape.D;
  std::fill_n(dq, B * T * H * D, Number(0));
  std::fill_n(dkv, B * S * 2 * shape.KV * D, Number(0));
  std::vector<Number> dP(S), dS(S);
  for (size_t row = 0; row < B * H * T; ++row) {
    const size_t i = row % T, h = row / T % H, b = row / T / H, at = shape.q_at(b, i, h);
    const Number *p = P + row * S, *m = multiplier + row * S;
    for (size_t j = 0; j < S; ++j) {
      dP[j] = m[j] * dot(dout + at, kv + shape.v_at(b, j, h), D);   // out[i] = Σⱼ m·P[i,j]·v[j]
      add(dkv + shape.v_at(b, j, h), m[j] * p[j], dout + at, D);    // out[i] = Σⱼ m·P[i,j]·v[j]
    }
    softmax_backward(dS.data(), dP.data(), p, S);  // P = softmax(S), which is 0 for the keys that i does not see
    for (size_t j = 0; j < S; ++j) {
      dS[j] *= score_slope(q + at, kv + shape.k_at(b, j, h), D, shape.scoring);
      add(dq + at, dS[j], kv + shape.k_at(b, j, h), D);   // S[i,j] = s·q[i]·k[j]
      add(dkv + shape.k_at(b, j, h), dS[j], q + at, D);   // S[i,j] = s·q[i]·k[j]
    }
  }
}

}  // namespace textbook
