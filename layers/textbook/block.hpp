#pragma once
// The transformer block, put together from the layers.

#include "activation.hpp"
#include "attention.hpp"
#include "cross_attention.hpp"
#include "dropout.hpp"
#include "layers/model/model.hpp"
#include "linear.hpp"
#include "lora.hpp"
#include "moe.hpp"
#include "ngpt.hpp"
#include "norm.hpp"
#include "position.hpp"
#include "residual.hpp"
#include "streams.hpp"

namespace textbook {

// ---- parameters ----------------------------------------------------------------------------------------------

// Parameters: all parameters of a model, or all gradients. `numbers` has the layout of model.weights.

template <class Number>
struct Parameters {
  const ::Model& model;
  bool training;
  std::vector<Number> numbers;

  // Returns the tensor that is at w in model.weights, or null if w is null.
  Number* at(const float* w) { return w ? &numbers[w - model.weights.get()] : nullptr; }

  Norm<Number> norm(const ::Norm& n) {
    return {n.kind, n.eps, at(n.gain), at(n.bias), n.gainless, n.unit_offset, at(n.alpha), at(n.shift),
            at(n.running_mean), at(n.running_var), at(n.down), at(n.up), size_t(n.rank), training};
  }
  Branch<Number> branch(const ::Branch& b) {
    const Gain<Number> gain = this->gain(b.gain);
    return {norm(b.norm_in), norm(b.norm_out), norm(b.norm_sum), gain, b.streams.skip, b.in_scale, b.out_scale()};
  }
  Gain<Number> gain(const ::Gain& g) { return {at(g.weight), g.single, g.factor}; }
  EigenRate<Number> rate(const ::Streams& s) { return {at(s.rate), s.rate_factor}; }
  Gain<Number> skip_gain(const ::Branch& b) { return gain(b.skip_gain); }
  Gpas<Number> gpas(const ::Gpas& g) { return {at(g.gate)}; }
  Mix<Number> mix(const ::Mix& m) { return {at(m.own), at(m.first), m.constant}; }
  Streams<Number> streams(const ::Streams& s) {
    std::vector<Norm<Number>> norms;
    for (const ::Norm& n : s.norms) norms.push_back(norm(n));
    return {s.rule, size_t(s.count), at(s.read), at(s.carry), at(s.write), norm(s.norm), at(s.weight), at(s.bias),
            at(s.scale), s.eps, s.first_write, size_t(s.kinds), norms, at(s.up), size_t(s.rank)};
  }
  DepthQuery<Number> depth(const ::DepthQuery& q) { return {at(q.query), norm(q.norm), q.normed, q.scale}; }
};

// ---- pass ----------------------------------------------------------------------------------------------------

// Pass: what all layers share during the forward and backward pass of a batch.

struct Sizes {
  size_t B, T, N, C, H, KV, D, F, V;  // N = B·T
  size_t S;                           // residual streams
  size_t qkv() const { return (H + 2 * KV) * D; }
};

template <class Number>
struct Pass {
  const Config& config;
  Sizes sizes;
  Dropout dropout;
  Parameters<Number>&p, &g;
  // What crosses layers, and its gradient: the first block's input (N,C), and the first layer's values (N,KV·D).
  std::vector<Number> x0 = {}, dx0 = {}, values = {}, dvalues = {};
  DepthSums<Number> sums = {size_t(config.residual_block)};  // what branches that attend over depth read
  const float* table_of_relative = nullptr;  // (buckets,H) of the stack's relative positions, if it has them
  Number router_scale = 1;  // factor on the routers' losses, in backward
  const int* begins = nullptr;  // (B,T) of the batch: where each token's example begins
  // In a decoder: what the encoder has read, its output (B·S,C), and the gradient of this output.
  EncoderInput source = {};
  std::vector<Number> memory = {}, dmemory = {};

  std::vector<size_t> positions() const { return textbook::positions(sizes.B, sizes.T, 0, begins); }
};

inline Sizes sizes_of(const Config& c, size_t B, size_t T) {
  return {B, T, B * T, size_t(c.channels), size_t(c.n_head), size_t(c.kv_heads), size_t(c.head_dim),
          size_t(c.hidden), size_t(c.vocab_size), size_t(stream_count(c))};
}

inline Scoring scoring_of(const Config& c, int layer) {
  Scoring s{*c.attention_scale, c.attention_cap, size_t(c.window_of(layer))};
  s.causal = c.causal();
  if (c.position == Position::alibi)
    for (int h = 0; h < c.n_head; ++h) s.slopes.push_back(alibi_slope(h, c.n_head));
  return s;
}

// ---- modules -------------------------------------------------------------------------------------------------

// A linear layer and a norm that know their parameters and gradients.
//   x (N,I)   y (N,O)
//   forward   reads x, writes y
//   backward  reads dy and x, writes dx, adds to the gradients of the parameters

template <class Number>
struct LinearModule {
  Pass<Number>& pass;
  const ::Linear& w;
  size_t I, O;
  int layer = 0;                                // for its adapters' dropout
  DropoutSite site = DropoutSite::embedding;
  size_t N = pass.sizes.N;  // rows: those of pass.sizes.B sequences, unless there is one

  void forward(Number* y, const Number* x) {
    linear_forward(y, x, pass.p.at(w.weight), pass.p.at(w.bias), {N, I, O});
    if (w.lora.empty()) return;
    std::vector<Number> read(x, x + N * I);
    dropout_forward(read.data(), multipliers().data(), N * I);
    for (const Lora& l : w.lora) lora_forward(y, read.data(), adapter(pass.p, l), N, I, O);
  }
  void backward(Number* dx, const Number* dy, const Number* x) {
    linear_backward(dx, pass.g.at(w.weight), pass.g.at(w.bias), dy, x, pass.p.at(w.weight), {N, I, O});
    if (w.lora.empty()) return;
    std::vector<Number> read(x, x + N * I), dread(N * I);
    const std::vector<Number> m = multipliers();
    dropout_forward(read.data(), m.data(), N * I);
    for (const Lora& l : w.lora)
      lora_backward(dread.data(), adapter(pass.g, l), dy, read.data(), adapter(pass.p, l), N, I, O);
    dropout_backward(dread.data(), m.data(), N * I);
    for (size_t i = 0; i < N * I; ++i) dx[i] += dread[i];
  }

  static Adapter<Number> adapter(Parameters<Number>& of, const Lora& l) {
    return {of.at(l.a), of.at(l.b), size_t(l.begin), size_t(l.out), size_t(l.rank), l.scale};
  }
  std::vector<Number> multipliers() const {
    Dropout dropout = pass.dropout;
    dropout.p = pass.p.training ? pass.config.lora_dropout : 0;
    return row_multipliers<Number>(dropout, layer, site, pass.sizes.B, N / pass.sizes.B, I);
  }
};

template <class Number>
struct NormModule {
  Pass<Number>& pass;
  const ::Norm& n;
  size_t width;
  size_t N = pass.sizes.N;
  NormSaved<Number> saved = {};

  void forward(Number* y, const Number* x) { norm_forward(y, saved, x, pass.p.norm(n), N, width); }
  void backward(Number* dx, const Number* dy, const Number* x) {
    norm_backward(dx, pass.g.norm(n), dy, x, saved, pass.p.norm(n), N, width);
  }
};

// ---- QK-norm -------------------------------------------------------------------------------------------------

// QkNorms: norms of queries and keys (and of values), each if the model has it.
//   q (N,H·D)   k, v (M,KV·D): rows that change in place

template <class Number>
struct QkNorms {
  struct Rows {
    Number *q, *k, *v;
    size_t q_stride, kv_stride, N, M;
  };
  Pass<Number>& pass;
  const QkNorm& norms;
  Sizes s = pass.sizes;
  bool by_head = pass.config.qk_norm != QkNormKind::full;
  QkNormSaved<Number> q = {}, k = {}, v = {};

  // A row of q or k is normalized in `count` parts of `width` numbers.
  size_t count(size_t heads) const { return by_head ? heads : 1; }
  size_t width(size_t heads) const { return by_head ? s.D : heads * s.D; }

  void forward(const Rows& x) {
    const Norm<Number> pq = pass.p.norm(norms.q), pk = pass.p.norm(norms.k), pv = pass.p.norm(norms.v);
    if (pq.present()) qk_norm_forward(x.q, q, pq, x.N, count(s.H), width(s.H), x.q_stride);
    if (pk.present()) qk_norm_forward(x.k, k, pk, x.M, count(s.KV), width(s.KV), x.kv_stride);
    if (pv.present()) qk_norm_forward(x.v, v, pv, x.M, s.KV, s.D, x.kv_stride);
  }
  void backward(const Rows& d) {
    const Norm<Number> pq = pass.p.norm(norms.q), pk = pass.p.norm(norms.k), pv = pass.p.norm(norms.v);
    if (pq.present()) qk_norm_backward(d.q, pass.g.norm(norms.q), q, pq, d.N, count(s.H), width(s.H), d.q_stride);
    if (pk.present()) qk_norm_backward(d.k, pass.g.norm(norms.k), k, pk, d.M, count(s.KV), width(s.KV), d.kv_stride);
    if (pv.present()) qk_norm_backward(d.v, pass.g.norm(norms.v), v, pv, d.M, s.KV, s.D, d.kv_stride);
  }
};

// ---- queries and keys ----------------------------------------------------------------------------------------

// QueriesKeys: QK-norm, then RoPE, then heads of length 1, each if the model has it.
//   x (N,(H + 2·KV)·D): rows q|k|v, which change in place

template <class Number>
struct QueriesKeys {
  Pass<Number>& pass;
  const QkNorm& norms;
  const UnitQk& unit;
  int layer;
  Sizes s = pass.sizes;
  UnitHeads<Number> unit_q = {}, unit_k = {};
  bool rope = pass.config.rotates(layer);
  QkNorms<Number> qk_norms = {pass, norms};

  // Calls f(first token, angles, positions) for each example, if the layer has RoPE.
  template <class F>
  void each_example(F f) const {
    const std::vector<size_t> p = pass.positions();
    for (size_t n = 0, end; rope && n < s.N; n = end) {
      for (end = n + 1; end < s.N && p[end] > 0; ++end) {}
      f(n, rope_of(pass.config, layer, end - n), std::vector<size_t>(p.begin() + n, p.begin() + end));
    }
  }
  typename QkNorms<Number>::Rows parts(Number* x) const {
    return {x, x + s.H * s.D, x + (s.H + s.KV) * s.D, s.qkv(), s.qkv(), s.N, s.N};
  }

  void forward(Number* x) {
    qk_norms.forward(parts(x));
    each_example([&](size_t n, const Rope& angles, const std::vector<size_t>& p) {
      rope_forward(x + n * s.qkv(), angles, p, s.H + s.KV, s.D, s.qkv());
    });
    if (!unit.present()) return;
    const Number* a = pass.p.at(unit.weight);
    unit_heads_forward(parts(x).q, unit_q, a, unit.factor, {s.N, s.H, s.D, s.qkv()});
    unit_heads_forward(parts(x).k, unit_k, a, unit.factor, {s.N, s.KV, s.D, s.qkv()});
  }
  void backward(Number* dx) {
    if (unit.present()) {
      Number* da = pass.g.at(unit.weight);
      const Number* a = pass.p.at(unit.weight);
      unit_heads_backward(parts(dx).q, da, unit_q, a, unit.factor, {s.N, s.H, s.D, s.qkv()});
      unit_heads_backward(parts(dx).k, da, unit_k, a, unit.factor, {s.N, s.KV, s.D, s.qkv()});
    }
    each_example([&](size_t n, const Rope& angles, const std::vector<size_t>& p) {
      rope_backward(dx + n * s.qkv(), angles, p, s.H + s.KV, s.D, s.qkv());
    });
    qk_norms.backward(parts(dx));
  }
};

// ---- value residual ------------------------------------------------------------------------------------------

// ValueResidual: mixes the first layer's values into a later layer's, if the model does that.
//   qkv (N,(H + 2·KV)·D): rows q|k|v; v changes in place

template <class Number>
struct ValueResidual {
  Pass<Number>& pass;
  const ::Mix& mix;
  int layer;
  Sizes s = pass.sizes;
  size_t width = s.KV * s.D;
  bool on = pass.config.value_residual != ::ValueResidual::none;
  std::vector<Number> before = {};  // (N,KV·D)

  std::vector<Number> values_of(const Number* qkv) const {
    std::vector<Number> v(s.N * width);
    for (size_t i = 0; i < v.size(); ++i) v[i] = qkv[i / width * s.qkv() + (s.H + s.KV) * s.D + i % width];
    return v;
  }
  void put(Number* qkv, const std::vector<Number>& v) const {
    for (size_t i = 0; i < v.size(); ++i) qkv[i / width * s.qkv() + (s.H + s.KV) * s.D + i % width] = v[i];
  }

  void forward(Number* qkv) {
    if (!on) return;
    before = values_of(qkv);
    if (layer == 0) pass.values = before;
    if (!mix.present()) return;
    std::vector<Number> v(before.size());
    mix_forward(v.data(), before.data(), pass.values.data(), pass.p.mix(mix), v.size());
    put(qkv, v);
  }
  void backward(Number* dqkv) {
    if (!on) return;
    std::vector<Number> dv = values_of(dqkv);
    pass.dvalues.resize(dv.size());
    if (mix.present())
      mix_backward(dv.data(), pass.dvalues.data(), pass.g.mix(mix), dv.data(), before.data(), pass.values.data(),
                   pass.p.mix(mix), dv.size());
    else
      for (size_t i = 0; i < dv.size(); ++i) dv[i] += pass.dvalues[i];  // the first layer: later ones have read v
    put(dqkv, dv);
  }
};

// ---- attention's branch --------------------------------------------------------------------------------------

// AttentionBranch: what self-attention and cross attention do after they have mixed the values.
//   u, f (N,C)   mixed (N,H·D)
//   forward   mixed → gate → head scale → norm_inner → o → dropout → f
//   backward  the same in reverse; overwrites df. du gets what the gate, which reads u, adds to it

template <class Number>
struct AttentionBranch {
  Pass<Number>& pass;
  const ::AttentionBranch& t;
  int layer;
  DropoutSite site_of_o, site_of_f;
  Sizes s = pass.sizes;
  LinearModule<Number> o = {pass, t.o, s.H * s.D, s.C, layer, site_of_o};
  LinearModule<Number> to_gate = {pass, t.output_gate, s.C, size_t(pass.config.gate_width())};
  bool gates = to_gate.O > 0, headwise = pass.config.output_gate == OutputGate::headwise;
  NormModule<Number> norm_inner = {pass, t.norm_inner, s.H * s.D};
  std::vector<Number> on_f = row_multipliers<Number>(pass.dropout, layer, site_of_f, s.B, s.T, s.C);
  std::vector<Number> gate = {}, gated = {}, scaled = {}, normed = {};
  const float* factors = t.head_scale.weight;  // one for each head, or null

  void forward(Number* f, const std::vector<Number>& mixed, const Number* u) {
    gate.resize(s.N * to_gate.O);
    gated = mixed;
    if (gates) to_gate.forward(gate.data(), u);
    if (gates) output_gate_forward(gated.data(), mixed.data(), gate.data(), s.N, s.H, s.D, headwise);
    scaled = gated;
    if (factors) head_scale_forward(scaled.data(), gated.data(), pass.p.at(factors), s.N, s.H, s.D);
    normed.resize(mixed.size());
    norm_inner.forward(normed.data(), scaled.data());
    o.forward(f, normed.data());
    dropout_forward(f, on_f.data(), s.N * s.C);
  }

  std::vector<Number> backward(std::vector<Number>& du, Number* df, const std::vector<Number>& mixed, const Number* u) {
    std::vector<Number> dnormed(normed.size()), dmixed(mixed.size()), dgate(gate.size());
    dropout_backward(df, on_f.data(), s.N * s.C);
    o.backward(dnormed.data(), df, normed.data());
    norm_inner.backward(dmixed.data(), dnormed.data(), scaled.data());
    if (factors)
      head_scale_backward(dmixed.data(), pass.g.at(factors), dmixed.data(), gated.data(), pass.p.at(factors), s.N, s.H,
                          s.D);
    if (gates)
      output_gate_backward(dmixed.data(), dgate.data(), mixed.data(), gate.data(), s.N, s.H, s.D, headwise);
    if (gates) to_gate.backward(du.data(), dgate.data(), u);
    return dmixed;
  }
};

// ---- attention -----------------------------------------------------------------------------------------------

// Attention: the sublayer, with its matrices.
//   u, f (N,C)
//   forward   u → q|k|v → norms → RoPE → value residual → attention → the rest of its branch → f
//   backward  the same in reverse; overwrites df

template <class Number>
struct Attention {
  Pass<Number>& pass;
  const ::Block& block;
  int layer;
  Sizes s = pass.sizes;
  LinearModule<Number> to_qkv = {pass, block.attention.qkv, s.C, s.qkv(), layer, DropoutSite::lora_qkv};
  QueriesKeys<Number> queries_keys = {pass, block.attention.qk_norm, block.attention.unit_qk, layer};
  ValueResidual<Number> value_residual = {pass, block.attention.value_mix, layer};
  AttentionBranch<Number> rest = {pass, block.attention, layer, DropoutSite::lora_o, DropoutSite::attention_out};
  Scoring scoring = scoring_of(pass.config, layer);
  std::vector<Number> m =
      attention_multipliers<Number>(pass.dropout, layer, DropoutSite::attention, s.B, s.H, s.T, s.T);
  std::vector<Number> qkv = {}, P = {}, mixed = {};
  const float* sinks = block.attention.sinks;  // one for each head, or null
  RelativeRule rule = {size_t(pass.config.relative_buckets), double(pass.config.relative_distance), scoring.causal};

  Relative<Number> relative(Parameters<Number>& of) const { return {of.at(pass.table_of_relative), rule}; }

  void forward(Number* f, const Number* u) {
    qkv.resize(s.N * s.qkv());
    P.resize(m.size());
    mixed.resize(s.N * s.H * s.D);
    to_qkv.forward(qkv.data(), u);
    queries_keys.forward(qkv.data());
    value_residual.forward(qkv.data());
    scoring.begins = pass.begins;
    attention_forward(mixed.data(), P.data(), qkv.data(), m.data(), {s.B, s.T, s.H, s.KV, s.D}, scoring,
                      pass.p.at(sinks), relative(pass.p));
    rest.forward(f, mixed, u);
  }

  void backward(Number* du, Number* df, const Number* u) {
    std::vector<Number> dqkv(qkv.size()), du_gate(s.N * s.C);
    const std::vector<Number> dmixed = rest.backward(du_gate, df, mixed, u);
    const AttentionShape shape = {s.B, s.T, s.H, s.KV, s.D};
    if (sinks) sinks_backward(pass.g.at(sinks), dmixed.data(), mixed.data(), P.data(), shape, s.T);
    attention_backward(dqkv.data(), dmixed.data(), P.data(), qkv.data(), m.data(), shape, scoring, relative(pass.g));
    value_residual.backward(dqkv.data());
    queries_keys.backward(dqkv.data());
    to_qkv.backward(du, dqkv.data(), u);
    for (size_t i = 0; i < s.N * s.C; ++i) du[i] += du_gate[i];  // the gate reads u, too
  }
};

// CrossAttention: the decoder's second sublayer, with its matrices. Its keys and values come from the encoder.
//   u, f (N,C)   memory (M,C), M = B·S
//   forward   u → q      memory → k|v      norms → cross attention → the rest of its branch → f
//   backward  the same in reverse; overwrites df, and adds to pass.dmemory

template <class Number>
struct CrossAttention {
  Pass<Number>& pass;
  const ::Block& block;
  int layer;
  Sizes s = pass.sizes;
  size_t S = pass.source.T, M = s.B * S, kv_width = 2 * s.KV * s.D;
  LinearModule<Number> to_q = {pass, block.cross.q, s.C, s.H * s.D, layer, DropoutSite::lora_cross_q};
  LinearModule<Number> to_kv = {pass, block.cross.kv, s.C, kv_width, layer, DropoutSite::lora_cross_kv, M};
  QkNorms<Number> norms = {pass, block.cross.qk_norm};
  AttentionBranch<Number> rest = {pass, block.cross, layer, DropoutSite::lora_cross_o, DropoutSite::cross_out};
  Scoring scoring = {*pass.config.attention_scale, pass.config.attention_cap};
  CrossShape shape = {s.B, s.T, S, s.H, s.KV, s.D, pass.source.from, pass.source.to, scoring};
  std::vector<Number> m = attention_multipliers<Number>(pass.dropout, layer, DropoutSite::cross, s.B, s.H, s.T, S);
  std::vector<Number> q = {}, kv = {}, P = {}, mixed = {};
  const float* sinks = block.cross.sinks;

  typename QkNorms<Number>::Rows rows(std::vector<Number>& of_q, std::vector<Number>& of_kv) const {
    return {of_q.data(), of_kv.data(), &of_kv[kv_width / 2], s.H * s.D, kv_width, s.N, M};
  }

  void forward(Number* f, const Number* u) {
    q.resize(s.N * s.H * s.D);
    kv.resize(M * kv_width);
    P.resize(m.size());
    mixed.resize(q.size());
    to_q.forward(q.data(), u);
    to_kv.forward(kv.data(), pass.memory.data());
    norms.forward(rows(q, kv));
    cross_attention_forward(mixed.data(), P.data(), q.data(), kv.data(), m.data(), shape, pass.p.at(sinks));
    rest.forward(f, mixed, u);
  }

  void backward(Number* du, Number* df, const Number* u) {
    std::vector<Number> dq(q.size()), dkv(kv.size()), dmemory(M * s.C), du_gate(s.N * s.C);
    const std::vector<Number> dmixed = rest.backward(du_gate, df, mixed, u);
    if (sinks)
      sinks_backward(pass.g.at(sinks), dmixed.data(), mixed.data(), P.data(), {s.B, s.T, s.H, s.KV, s.D}, S);
    cross_attention_backward(dq.data(), dkv.data(), dmixed.data(), P.data(), q.data(), kv.data(), m.data(), shape);
    norms.backward(rows(dq, dkv));
    to_q.backward(du, dq.data(), u);
    for (size_t i = 0; i < s.N * s.C; ++i) du[i] += du_gate[i];  // the gate reads u, too
    to_kv.backward(dmemory.data(), dkv.data(), pass.memory.data());
    for (size_t i = 0; i < M * s.C; ++i) pass.dmemory[i] += dmemory[i];  // every block reads the memory
  }
};

// ---- mixture of experts --------------------------------------------------------------------------------------

// Experts: the sublayer, with its matrices. Row (n, a) is the a-th expert of token n: one of the k chosen, or a shared
// one, whose weight is 1.
//   u, f (N,C)
//   forward   h = norm_inner(activation(up_e u[n])) of each row      f[n] = Σ_a p_a·down_e h
//   backward  dp_a = df[n]·down_e h      d(down_e h) = p_a·df[n]      the rest as in a feed-forward layer

template <class Number>
struct Experts {
  Pass<Number>& pass;
  const ::Moe& moe;
  const ::Norm& norm;
  Sizes s = pass.sizes;
  const Config& c = pass.config;
  Activation kind = c.activation;
  Routing routing = {size_t(c.experts), size_t(c.experts_per_token), c.router_renormalize, c.router_loss,
                     c.router_z_loss};
  size_t k = routing.k, A = k + c.shared_experts, width = is_gated(kind) ? 2 * s.F : s.F;
  LinearModule<Number> router = {pass, moe.router.linear, s.C, routing.E};
  NormModule<Number> norm_inner = {pass, norm, s.F, s.N * A};
  RouterSaved<Number> routed = {};
  std::vector<Number> expanded = {}, active = {}, normed = {}, out = {};  // (N,A,...)

  size_t expert_of(size_t n, size_t a) const { return a < k ? routed.chosen[n * k + a] : routing.E + a - k; }
  Number weight_of(size_t n, size_t a) const { return a < k ? routed.p[n * k + a] : Number(1); }
  LinearModule<Number> up(size_t e) { return {pass, moe.experts[e].up, s.C, width, 0, DropoutSite::embedding, 1}; }
  LinearModule<Number> down(size_t e) { return {pass, moe.experts[e].down, s.F, s.C, 0, DropoutSite::embedding, 1}; }

  void forward(Number* f, const Number* u) {
    const size_t R = s.N * A;
    expanded.resize(R * width);
    active.resize(R * s.F);
    normed.resize(R * s.F);
    out.resize(R * s.C);
    std::vector<Number> logits(s.N * routing.E);
    router.forward(logits.data(), u);
    router_forward(routed, logits.data(), pass.p.at(moe.router.bias), routing, s.N);
    for (size_t r = 0; r < R; ++r) up(expert_of(r / A, r % A)).forward(&expanded[r * width], u + r / A * s.C);
    activation_forward(active.data(), expanded.data(), kind, R, s.F);
    norm_inner.forward(normed.data(), active.data());
    std::fill(f, f + s.N * s.C, Number(0));
    for (size_t r = 0; r < R; ++r) {
      down(expert_of(r / A, r % A)).forward(&out[r * s.C], &normed[r * s.F]);
      add(f + r / A * s.C, weight_of(r / A, r % A), &out[r * s.C], s.C);
    }
  }

  void backward(Number* du, const Number* df, const Number* u) {
    const size_t R = s.N * A;
    std::vector<Number> dnormed(normed.size()), dactive(active.size()), dexpanded(expanded.size()), dp(s.N * k),
        dlogits(s.N * routing.E), dout(s.C), du_row(s.C);
    for (size_t r = 0; r < R; ++r) {  // f[n] = Σ_a p_a·out_a
      const size_t n = r / A, a = r % A;
      if (a < k) dp[n * k + a] = dot(df + n * s.C, &out[r * s.C], s.C);
      for (size_t i = 0; i < s.C; ++i) dout[i] = weight_of(n, a) * df[n * s.C + i];
      down(expert_of(n, a)).backward(&dnormed[r * s.F], dout.data(), &normed[r * s.F]);
    }
    norm_inner.backward(dactive.data(), dnormed.data(), active.data());
    activation_backward(dexpanded.data(), dactive.data(), expanded.data(), kind, R, s.F);
    router_backward(dlogits.data(), dp.data(), routed, routing, pass.router_scale, s.N);
    router.backward(du, dlogits.data(), u);
    for (size_t r = 0; r < R; ++r) {  // each row reads u[n]
      up(expert_of(r / A, r % A)).backward(du_row.data(), &dexpanded[r * width], u + r / A * s.C);
      add(du + r / A * s.C, Number(1), du_row.data(), s.C);
    }
  }
};

// ---- feed-forward --------------------------------------------------------------------------------------------

// FeedForward: the sublayer, with its matrices.
//   u, f (N,C)
//   forward   u → up, or gate|up → up_gain → activation → norm_inner → down → dropout → f
//   backward  the same in reverse; overwrites df
// In a mixture of experts, `experts` takes the place of everything but dropout.

template <class Number>
struct FeedForward {
  Pass<Number>& pass;
  const ::Block& block;
  int layer;
  Sizes s = pass.sizes;
  Activation kind = pass.config.activation;
  LinearModule<Number> up = {pass, block.ffn.up, s.C, is_gated(kind) ? 2 * s.F : s.F, layer, DropoutSite::lora_up},
                       down = {pass, block.ffn.down, s.F, s.C, layer, DropoutSite::lora_down};
  NormModule<Number> norm_inner = {pass, block.ffn.norm_inner, s.F};
  std::vector<Number> on_f = row_multipliers<Number>(pass.dropout, layer, DropoutSite::ffn_out, s.B, s.T, s.C);
  std::vector<Number> plain = {}, expanded = {}, active = {}, normed = {};  // normed = norm_inner(active)
  Experts<Number> experts = {pass, block.ffn.moe, block.ffn.norm_inner};

  void forward(Number* f, const Number* u) {
    if (block.ffn.moe.present()) experts.forward(f, u);
    else layer_forward(f, u);
    dropout_forward(f, on_f.data(), s.N * s.C);
  }

  void backward(Number* du, Number* df, const Number* u) {
    dropout_backward(df, on_f.data(), s.N * s.C);
    if (block.ffn.moe.present()) experts.backward(du, df, u);
    else layer_backward(du, df, u);
  }

  void layer_forward(Number* f, const Number* u) {
    expanded.resize(s.N * up.O);
    active.resize(s.N * s.F);
    normed.resize(s.N * s.F);
    plain.resize(expanded.size());
    up.forward(plain.data(), u);
    gain_forward(expanded.data(), plain.data(), pass.p.gain(block.ffn.up_gain), s.N, up.O);
    activation_forward(active.data(), expanded.data(), kind, s.N, s.F);
    norm_inner.forward(normed.data(), active.data());
    down.forward(f, normed.data());
  }

  void layer_backward(Number* du, const Number* df, const Number* u) {
    std::vector<Number> dnormed(normed.size()), dactive(active.size()), dexpanded(expanded.size());
    down.backward(dnormed.data(), df, normed.data());
    norm_inner.backward(dactive.data(), dnormed.data(), active.data());
    activation_backward(dexpanded.data(), dactive.data(), expanded.data(), kind, s.N, s.F);
    gain_backward(dexpanded.data(), pass.g.gain(block.ffn.up_gain), dexpanded.data(), plain.data(),
                  pass.p.gain(block.ffn.up_gain), s.N, up.O);
    up.backward(du, dexpanded.data(), u);
  }
};

// ---- bypass --------------------------------------------------------------------------------------------------

// Bypass: a sublayer F that also adds the input b of the block to its output (B2T), divided by the factor on what the
// branch adds.
//   b, db (N,C)
//   forward   f  = F(u) + b/scale
//   backward  db = df/scale      du = F'(df)

template <class Number>
struct Bypass {
  FeedForward<Number>& F;
  Number scale;
  const Number* b;
  Number* db = nullptr;
  size_t size = F.s.N * F.s.C;

  void forward(Number* f, const Number* u) {
    F.forward(f, u);
    for (size_t i = 0; i < size; ++i) f[i] += b[i] / scale;
  }
  void backward(Number* du, Number* df, const Number* u) {
    for (size_t i = 0; i < size; ++i) db[i] = df[i] / scale;  // f = F(u) + b/scale
    F.backward(du, df, u);                                    // f = F(u) + b/scale
  }
};

// ---- block ---------------------------------------------------------------------------------------------------

// Block: attention and feed-forward layer, each in its residual branch, in sequence or in parallel; in a decoder, cross
// attention is a third branch between them. With several streams, x and y are (S,N,C). A model with a stream mix first
// replaces x by a·x + b·x0.

template <class Number>
struct Block {
  Pass<Number>& pass;
  const ::Block& block;
  int layer;
  size_t N = pass.sizes.N, C = pass.sizes.C, size = pass.sizes.S * N * C;
  Rows rows = {N, C};
  bool parallel = pass.config.block != BlockForm::sequential, crosses = pass.config.crosses();
  Attention<Number> attention = {pass, block, layer};
  CrossAttention<Number> cross = {pass, block, layer};
  FeedForward<Number> ffn = {pass, block, layer};
  TwoSaved<Number> saved = {};
  BranchSaved<Number> saved_cross = {};
  StreamsSaved<Number> mixed_attention = {}, mixed_cross = {}, mixed_ffn = {};
  std::vector<Number> after_attention = std::vector<Number>(size), middle = std::vector<Number>(size);
  std::vector<Number> discarded = std::vector<Number>(C), mixed = {};

  Block(Pass<Number>& in_pass, const ::Block& parameters, int l) : pass(in_pass), block(parameters), layer(l) {}

  void forward(Number* y, const Number* x) {
    if (!block.mix.present()) return branches_forward(y, x);
    mixed.resize(N * C);
    mix_forward(mixed.data(), x, pass.x0.data(), pass.p.mix(block.mix), N * C);
    branches_forward(y, mixed.data());
  }
  void backward(Number* dx, const Number* dy, const Number* x) {
    if (!block.mix.present()) return branches_backward(dx, dy, x);
    branches_backward(dx, dy, mixed.data());
    mix_backward(dx, pass.dx0.data(), pass.g.mix(block.mix), dx, x, pass.x0.data(), pass.p.mix(block.mix), N * C);
  }

  void branches_forward(Number* y, const Number* x) {
    if (parallel) return parallel_forward(y, saved, x, branches(pass.p), functions(), rows);
    one_forward(after_attention.data(), saved.first, mixed_attention, x, block.attention, attention);
    middle = after_attention;
    if (crosses) one_forward(middle.data(), saved_cross, mixed_cross, after_attention.data(), block.cross, cross);
    if (!block.ffn.bypass) return one_forward(y, saved.second, mixed_ffn, middle.data(), block.ffn, ffn);
    Bypass<Number> bypass{ffn, block.ffn.out_scale(), x};
    one_forward(y, saved.second, mixed_ffn, middle.data(), block.ffn, bypass);
  }
  void branches_backward(Number* dx, const Number* dy, const Number* x) {
    if (parallel) return parallel_backward(dx, branches(pass.g), dy, x, saved, branches(pass.p), functions(), rows);
    std::vector<Number> dmiddle(size), dafter(size), db(N * C);
    Bypass<Number> bypass{ffn, block.ffn.out_scale(), x, db.data()};
    if (block.ffn.bypass)
      one_backward(dmiddle.data(), dy, middle.data(), saved.second, mixed_ffn, block.ffn, bypass);
    else one_backward(dmiddle.data(), dy, middle.data(), saved.second, mixed_ffn, block.ffn, ffn);
    dafter = dmiddle;
    if (crosses)
      one_backward(dafter.data(), dmiddle.data(), after_attention.data(), saved_cross, mixed_cross, block.cross, cross);
    one_backward(dx, dafter.data(), x, saved.first, mixed_attention, block.attention, attention);
    for (size_t i = 0; i < N * C; ++i) dx[i] += db[i];  // the block reads x in attention and in the bypass
  }

  // One branch after another, and GPAS after each. Several streams have branches of their own.
  template <class F>
  void one_forward(Number* y, BranchSaved<Number>& of_branch, StreamsSaved<Number>& of_streams, const Number* x,
                   const ::Branch& t, F& f) {
    const Branch<Number> p = pass.p.branch(t);
    if (t.skip_gain.present()) {
      SkipGain<Number, F> with_skip = skip_gain_of(t, f);
      return branch_forward(y, of_branch, x, sum_alone(p), with_skip, rows);
    }
    if (t.streams.rule == StreamRule::single) {
      branch_forward(y, of_branch, x, p, f, rows);
      return gpas_forward(y, of_branch.s.data(), pass.p.gpas(t.gpas), N, C);
    }
    if (t.streams.rule == StreamRule::sphere) {
      of_streams.f.resize(N * C);
      f.forward(of_streams.f.data(), x);
      return sphere_forward(y, x, of_streams.f.data(), pass.p.rate(t.streams), rows);
    }
    if (is_attnres(t.streams.rule)) {
      BranchFunction<Number, F> branch{without_skip(p), {}, of_streams.branch, f, rows};
      return depth_branch_forward(y, of_streams.depth, of_streams.h, x, depth_of(t), branch, rows);
    }
    streams_forward(y, of_streams, x, {p, pass.p.streams(t.streams)}, f, rows);
  }
  template <class F>
  void one_backward(Number* dx, const Number* dy, const Number* x, BranchSaved<Number>& of_branch,
                    StreamsSaved<Number>& of_streams, const ::Branch& t, F& f) {
    const Branch<Number> p = pass.p.branch(t), g = pass.g.branch(t);
    if (t.skip_gain.present()) {
      SkipGain<Number, F> with_skip = skip_gain_of(t, f);
      return branch_backward(dx, g, dy, x, of_branch, sum_alone(p), with_skip, rows);
    }
    if (t.streams.rule == StreamRule::single) {
      gpas_backward(pass.g.gpas(t.gpas), dy, of_branch.s.data(), pass.p.gpas(t.gpas), N, C);
      return branch_backward(dx, g, dy, x, of_branch, p, f, rows);
    }
    if (t.streams.rule == StreamRule::sphere) {
      std::vector<Number> df(N * C), dh(N * C);
      sphere_backward(dx, df.data(), pass.g.rate(t.streams), dy, x, of_streams.f.data(), pass.p.rate(t.streams), rows);
      f.backward(dh.data(), df.data(), x);
      return add(dx, Number(1), dh.data(), N * C);  // the branch reads x, too
    }
    if (is_attnres(t.streams.rule)) {
      BranchFunction<Number, F> branch{without_skip(p), without_skip(g), of_streams.branch, f, rows};
      return depth_branch_backward(dx, dy, of_streams.depth, of_streams.h, x, depth_of(t), branch, rows);
    }
    streams_backward(dx, {g, pass.g.streams(t.streams)}, dy, x, of_streams, {p, pass.p.streams(t.streams)}, f, rows);
  }

  // The parts of a branch with ω: its sublayer, and the norm after it.
  template <class F>
  SkipGain<Number, F> skip_gain_of(const ::Branch& t, F& f) {
    return {f, pass.p.skip_gain(t), pass.g.skip_gain(t), t.streams.skip, t.out_scale(), N, C};
  }
  static Branch<Number> sum_alone(Branch<Number> p) {
    p.skip = 0;
    p.out_scale = 1;
    return p;
  }

  // The place of a branch among all, and its query.
  DepthBranch<Number> depth_of(const ::Branch& t) {
    const size_t number = 2 * layer + (&t == &block.ffn);
    const Number skip = *pass.config.skip_scale;
    return {pass.sums, number, skip, pass.p.depth(t.streams.depth), pass.g.depth(t.streams.depth)};
  }

  std::pair<Attention<Number>&, FeedForward<Number>&> functions() { return {attention, ffn}; }

  // If both share a norm, only the first updates the running statistics of BatchNorm.
  TwoBranches<Number> branches(Parameters<Number>& of) {
    Branch<Number> first = of.branch(block.attention), second = of.branch(block.ffn);
    const bool shared = pass.config.block == BlockForm::parallel_shared;
    if (shared) {
      second.norm_in = first.norm_in;
      second.in_scale = first.in_scale;
    }
    if (shared && of.training) second.norm_in.running_mean = second.norm_in.running_var = discarded.data();
    return {first, second};
  }
};

}  // namespace textbook
