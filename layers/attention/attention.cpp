#include "attention.hpp"

#include <algorithm>
#include <cmath>

#include "layers/kernels/buffer.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"
#include "scores.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

// So many queries share a packed tile of keys. Each has a softmax of its own: its results do not depend on this number.
constexpr int kQueries = 2 * kTile;

struct HeadRows {  // one head of one sequence: rows `stride` apart
  const float* data;
  size_t stride;
  MatrixView rows(int first) const { return {data + first * stride, stride, 1}; }
  MatrixView transposed(int first) const { return {data + first * stride, 1, stride}; }
};

// row = exp(score − shift) where it is seen, else zero; returns the sum.
float exponentials(float* row, const Scores& scores, float shift, Seen seen, int keys) {
  Vec sum = {};
  float* from = row + seen.begin;
  scores.each(from, shift, seen.count(), [&](int j, int lanes, Vec s) {
    const Vec e = simd::exp(s);
    store(from + j, e, lanes);
    sum += e;
  });
  std::fill(row, from, 0.f);
  std::fill(row + seen.end, row + keys, 0.f);
  return static_cast<float>(simd::sum(sum));
}

void scale_row(float* row, float factor, int n) {
  sweep(n, [&](int i, int lanes) { store(row + i, load(row + i, lanes) * factor, lanes); });
}

// Everything forward reads and writes.
struct Forward {
  float *out, *lse;
  const float* q;
  size_t q_stride;
  const KeysValues& kv;
  const AttentionShape& shape;
  const Dropout& dropout;
  int layer;
};

// Some queries of one head, and their softmax as far as it has come.
struct Running {
  int b, h, q0, queries;
  float top[kQueries], sum[kQueries];  // the largest score, and the sum of the exponentials of all scores less it

  Running(const Forward& w, int batch, int head, int first)
      : b(batch), h(head), q0(first), queries(std::min(kQueries, w.shape.T - first)) {
    std::fill_n(top, queries, -INFINITY);
    std::fill_n(sum, queries, 0.f);
  }
};

struct Keys {  // a tile of them
  int k0, keys;
  bool first;
};

// Query i takes in a tile of keys: `row`, its products with them, becomes their weights, and `out`, what it has mixed
// so far, is brought to the new maximum.
void forward_row(float* row, float* out, const Forward& w, Running& t, int i, const Keys& tile) {
  const auto [k0, keys, first] = tile;
  const int at = w.kv.past + t.q0 + i;
  const Seen seen = keys_seen(at, k0, keys, w.shape.window);
  const int n = seen.count();
  if (n == 0) {  // this key tile lies wholly in the future of query i, or before its window
    std::fill_n(row, keys, 0.f);
    return;
  }
  if (w.shape.cap > 0) soft_cap(row + seen.begin, nullptr, w.shape.scale, w.shape.cap, n);
  const Scores scores(w.shape, t.h, at - k0 - seen.begin);
  const float tile_top = scores.largest(row + seen.begin, n);
  const float new_top = first ? tile_top : std::max(t.top[i], tile_top);
  const float tile_sum = exponentials(row, scores, new_top, seen, keys);
  const float shrink = first ? 0 : std::exp(t.top[i] - new_top);  // what was summed so far was too large
  t.sum[i] = first ? tile_sum : t.sum[i] * shrink + tile_sum;
  if (!first && shrink != 1) scale_row(out, shrink, w.shape.head_dim);
  t.top[i] = new_top;
  if (w.dropout.p > 0) dropout_line(row, w.dropout.attention_key(t.b, w.layer, t.h, t.q0 + i), w.dropout.p, k0, keys);
}

void forward_queries(const Forward& w, int b, int h, int q0) {
  const AttentionShape& shape = w.shape;
  const KeysValues& kv = w.kv;
  const int H = shape.n_head, D = shape.head_dim;
  const size_t row = static_cast<size_t>(b) * shape.T, out_stride = shape.width();
  const size_t kv_at = b * kv.length * kv.stride + h / (H / shape.kv_heads) * D;
  const HeadRows q{w.q + row * w.q_stride + h * D, w.q_stride}, k{kv.k + kv_at, kv.stride}, v{kv.v + kv_at, kv.stride};
  float* out = w.out + (row + q0) * out_stride + h * D;
  float* lse = w.lse + row * H + static_cast<size_t>(h) * shape.T + q0;

  alignas(64) float s[kQueries * kTile];
  Running t(w, b, h, q0);
  const int at = kv.past + q0, first = first_tile(at, shape.window), end = at + t.queries;
  for (int k0 = first; k0 < end; k0 += kTile) {
    const Keys tile{k0, std::min(kTile, end - k0), k0 == first};
    const int i0 = std::max(0, k0 - at), rows = t.queries - i0, diagonal = at + i0 - k0;  // earlier queries see no key
    gemm_serial(s, kTile, q.rows(q0 + i0), k.transposed(k0), rows, tile.keys, D, false,  // q kᵀ; Scores makes S of it
                {Triangle::c_lower, diagonal});
    for (int i = i0; i < t.queries; ++i) forward_row(s + (i - i0) * kTile, out + i * out_stride, w, t, i, tile);
    gemm_serial(out + i0 * out_stride, out_stride, {s, kTile, 1}, v.rows(k0), rows, D, tile.keys, !tile.first,
                {Triangle::a_lower, diagonal});
  }
  for (int i = 0; i < t.queries; ++i) {
    scale_row(out + i * out_stride, 1 / t.sum[i], D);
    lse[i] = t.top[i] + std::log(t.sum[i]);
  }
}

}  // namespace

void attention_forward(float* out, float* lse, const float* q, size_t q_stride, const KeysValues& kv,
                       const AttentionShape& shape, const Dropout& dropout, int layer) {
  const Forward w{out, lse, q, q_stride, kv, shape, dropout, layer};
  const int H = shape.n_head, pieces = (shape.T + kQueries - 1) / kQueries;
  parallel_tasks(shape.B * H * pieces,
                 [&](int task) { forward_queries(w, task / pieces / H, task / pieces % H, task % pieces * kQueries); });
}

void attention_forward(float* out, float* lse, const float* qkv, const AttentionShape& shape,
                       const Dropout& dropout, int layer) {
  const size_t stride = shape.qkv_width(), k_at = shape.width(), v_at = k_at + shape.kv_heads * shape.head_dim;
  attention_forward(out, lse, qkv, stride, {qkv + k_at, qkv + v_at, stride, 0, size_t(shape.T)}, shape, dropout, layer);
}

namespace {

// Everything backward reads and writes, and where one head of one sequence begins in it.
struct Backward {
  float* dqkv;
  const float *dout, *out, *lse, *qkv;
  AttentionShape shape;
  Dropout dropout;
  int layer;

  int group() const { return shape.n_head / shape.kv_heads; }
  int first_keys(int q0) const { return first_tile(q0, shape.window); }
  int end_of_queries(int k0) const {  // that see any of the tile of keys at k0
    return shape.window > 0 ? std::min(shape.T, k0 + kTile + shape.window - 1) : shape.T;
  }
  size_t stride() const { return shape.qkv_width(); }
  size_t q_at(int b, int h) const { return static_cast<size_t>(b) * shape.T * stride() + h * shape.head_dim; }
  size_t k_at(int b, int kv) const { return q_at(b, shape.n_head + kv); }
  size_t v_at(int b, int kv) const { return q_at(b, shape.n_head + shape.kv_heads + kv); }
  size_t out_at(int b, int h) const { return static_cast<size_t>(b) * shape.T * shape.width() + h * shape.head_dim; }
};

// Some queries of one head, with what their backward needs again for every tile of keys.
struct Queries {
  int b, h, q0, queries;
  HeadRows q, dy;  // from query q0 on, copied
  const float* lse;
  float delta[kQueries];  // Δ = Σⱼ P·dP = dout·out

  Queries(const Backward& w, int batch, int head, int first)
      : b(batch), h(head), q0(first), queries(std::min(kQueries, w.shape.T - first)),
        lse(w.lse + (static_cast<size_t>(b) * w.shape.n_head + h) * w.shape.T + q0) {
    const size_t D = w.shape.head_dim, width = w.shape.width(), at = w.out_at(b, h) + q0 * width;
    float* copies = copies_of(2 * kQueries * D);
    q = {copies, D}, dy = {copies + kQueries * D, D};
    for (int i = 0; i < queries; ++i) {
      std::copy_n(w.qkv + w.q_at(b, h) + (q0 + i) * w.stride(), D, copies + i * D);
      std::copy_n(w.dout + at + i * width, D, copies + (kQueries + i) * D);
      delta[i] = static_cast<float>(simd::dot(w.dout + at + i * width, w.out + at + i * width, w.shape.head_dim));
    }
  }

  static float* copies_of(size_t floats) {  // memory of this thread
    thread_local struct { Buffer buffer; size_t floats = 0; } memory;
    if (memory.floats < floats) memory = {allocate(floats), floats};
    return memory.buffer.get();
  }
};

// The gradients that queries and a tile of keys give each other: dq of the queries, dk and dv of the keys. Either may
// be left out. The first tile to reach an output writes it, all later ones add. For dk and dv that is the first head
// that reads a key, with the tile of queries at the same place.
struct Wanted {
  bool dq, dkv;
};

// Query i of a tile: its products with the keys become P, and dP becomes s·dS. With dropout `dropped_row` is what v was
// multiplied by.
void backward_row(float* p_row, float* dropped_row, float* ds_row, const Backward& w, const Queries& t, int i, int k0,
                  int keys) {
  const int at = t.q0 + i;
  const float scale = w.shape.scale;
  const Seen seen = keys_seen(at, k0, keys, w.shape.window);
  alignas(64) float cap_slopes[kTile];
  if (w.shape.cap > 0) soft_cap(p_row + seen.begin, cap_slopes, scale, w.shape.cap, seen.count());
  exponentials(p_row, Scores(w.shape, t.h, at - k0 - seen.begin), t.lse[i], seen, keys);  // P = exp(S − lse)
  if (w.dropout.p > 0) {
    const uint64_t key = w.dropout.attention_key(t.b, w.layer, t.h, at);
    std::copy_n(p_row, keys, dropped_row);
    dropout_line(dropped_row, key, w.dropout.p, k0, keys);
    dropout_line(ds_row, key, w.dropout.p, k0, keys);
  }
  sweep(seen.end, [&](int j, int lanes) {  // P = softmax(S): dS = P·(dP − Δ); the scale belongs to dq and dk
    store(ds_row + j, load(p_row + j, lanes) * (load(ds_row + j, lanes) - t.delta[i]) * scale, lanes);
  });
  std::fill(ds_row + seen.end, ds_row + keys, 0.f);  // where P is zero; dP was not calculated
  if (w.shape.cap > 0)  // S = c·tanh(...): dS ← dS·(1 − tanh²)
    sweep(seen.count(), [&](int j, int lanes) {
      float* to = ds_row + seen.begin + j;
      store(to, load(to, lanes) * load(cap_slopes + j, lanes), lanes);
    });
}

void backward_tile(const Backward& w, const Queries& t, int k0, Wanted wanted) {
  const int D = w.shape.head_dim, kv = t.h / w.group();
  const int keys = std::min(kTile, t.q0 + t.queries - k0);
  const int i0 = std::max(0, k0 - t.q0), rows = t.queries - i0;  // earlier queries see none of the keys
  const Triangle lower{Triangle::c_lower, t.q0 + i0 - k0}, left{Triangle::a_lower, lower.diagonal};
  const size_t stride = w.stride();
  const HeadRows k{w.qkv + w.k_at(t.b, kv), stride}, v{w.qkv + w.v_at(t.b, kv), stride};
  alignas(64) float p[kQueries * kTile], dropped[kQueries * kTile], ds[kQueries * kTile];
  gemm_serial(p, kTile, t.q.rows(i0), k.transposed(k0), rows, keys, D, false, lower);    // q kᵀ; Scores makes S of it
  gemm_serial(ds, kTile, t.dy.rows(i0), v.transposed(k0), rows, keys, D, false, lower);  // out = P v: dP
  for (int i = 0; i < rows; ++i)
    backward_row(p + i * kTile, dropped + i * kTile, ds + i * kTile, w, t, i0 + i, k0, keys);
  const float* weights = w.dropout.p > 0 ? dropped : p;  // what v was multiplied by
  if (wanted.dq)  // S = scale·q kᵀ
    gemm_serial(w.dqkv + w.q_at(t.b, t.h) + (t.q0 + i0) * stride, stride, {ds, kTile, 1}, k.rows(k0), rows, D, keys,
                k0 > w.first_keys(t.q0), left);
  if (!wanted.dkv) return;
  for (int i = 0; i < rows; i += kTile) {
    const int queries = std::min(kTile, rows - i), q0 = t.q0 + i0 + i;
    const bool add = t.h != kv * w.group() || q0 != k0;
    const Triangle right{Triangle::a_upper, q0 - k0};
    gemm_serial(w.dqkv + w.k_at(t.b, kv) + k0 * stride, stride, {ds + i * kTile, 1, kTile}, t.q.rows(i0 + i), keys, D,
                queries, add, right);
    gemm_serial(w.dqkv + w.v_at(t.b, kv) + k0 * stride, stride, {weights + i * kTile, 1, kTile}, t.dy.rows(i0 + i),
                keys, D, queries, add, right);  // out = P v
  }
}

// dk and dv of a tile of keys are summed over the query heads that read it, and in each over its later queries.
void backward_of_key_tile(const Backward& w, int b, int kv, int k0) {
  for (int h = kv * w.group(); h < (kv + 1) * w.group(); ++h)
    for (int q0 = k0; q0 < w.end_of_queries(k0); q0 += kQueries)
      backward_tile(w, Queries(w, b, h, q0), k0, {false, true});
}

}  // namespace

void attention_backward(float* dqkv, const float* dout, const float* out, const float* lse, const float* qkv,
                        const AttentionShape& shape, const Dropout& dropout, int layer) {
  const Backward w{dqkv, dout, out, lse, qkv, shape, dropout, layer};
  const int H = shape.n_head, KV = shape.kv_heads, T = shape.T, tiles = (T + kTile - 1) / kTile;
  if (shape.B * KV >= max_threads() || tiles == 1) {
    // One task owns the gradients of a key/value head and of the query heads that read it.
    parallel_tasks(shape.B * KV, [&](int task) {
      const int b = task / KV, kv = task % KV;
      for (int h = kv * w.group(); h < (kv + 1) * w.group(); ++h)
        for (int q0 = 0; q0 < T; q0 += kQueries) {
          const Queries queries(w, b, h, q0);
          for (int k0 = w.first_keys(q0); k0 < q0 + queries.queries; k0 += kTile)
            backward_tile(w, queries, k0, {true, true});
        }
    });
    return;
  }
  // Too few heads to go round: tiles of queries and tiles of keys are tasks of their own. S and dP are calculated
  // twice, all sums are taken in the same order as above.
  const int pieces = (T + kQueries - 1) / kQueries;
  parallel_tasks(shape.B * H * pieces, [&](int task) {
    const int piece = pieces - 1 - task % pieces;  // the longest first
    const Queries queries(w, task / pieces / H, task / pieces % H, piece * kQueries);
    for (int k0 = w.first_keys(queries.q0); k0 < queries.q0 + queries.queries; k0 += kTile)
      backward_tile(w, queries, k0, {true, false});
  });
  parallel_tasks(shape.B * KV * tiles, [&](int task) {
    backward_of_key_tile(w, task / tiles / KV, task / tiles % KV, task % tiles * kTile);
  });
}
