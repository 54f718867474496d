#pragma once
// What becomes of queries and keys before attention, in place on the joined rows q|k|v (N,(H + 2·KV)·D): a norm of each,
// where there is one, and then RoPE, where that is how positions are told. Values pass.

#include "pass.hpp"
#include "qk_norm.hpp"
#include "rope.hpp"

namespace textbook {

template <class Number>
struct QueriesKeys {
  Pass<Number>& pass;
  const QkNorm& norms;
  Sizes s = pass.sizes;
  bool by_head = pass.config.qk_norm == QkNormKind::head, rope = pass.config.position == Position::rope;
  double theta = pass.config.rope_theta;
  size_t R = pass.config.rope_dims();
  QkNormSaved<Number> q = {}, k = {};

  // A row of q or k is normalized in `count` parts, each `width` wide.
  size_t count(size_t heads) const { return by_head ? heads : 1; }
  size_t width(size_t heads) const { return by_head ? s.D : heads * s.D; }

  void forward(Number* x) {
    const Norm<Number> pq = pass.p.norm(norms.q), pk = pass.p.norm(norms.k);
    if (pq.gain) qk_norm_forward(x, q, pq, s.N, count(s.H), width(s.H), s.qkv());
    if (pk.gain) qk_norm_forward(x + s.H * s.D, k, pk, s.N, count(s.KV), width(s.KV), s.qkv());
    if (rope) rope_forward(x, theta, 0, s.B, s.T, s.H + s.KV, s.D, R, s.qkv());
  }
  void backward(Number* dx) {
    const Norm<Number> pq = pass.p.norm(norms.q), pk = pass.p.norm(norms.k);
    if (rope) rope_backward(dx, theta, s.B, s.T, s.H + s.KV, s.D, R, s.qkv());
    if (pq.gain) qk_norm_backward(dx, pass.g.norm(norms.q), q, pq, s.N, count(s.H), width(s.H), s.qkv());
    if (pk.gain) qk_norm_backward(dx + s.H * s.D, pass.g.norm(norms.k), k, pk, s.N, count(s.KV), width(s.KV), s.qkv());
  }
};

}  // namespace textbook
