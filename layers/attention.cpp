#include "attention.hpp"

#include <cmath>

#include "gemm.hpp"
#include "parallel.hpp"
#include "simd.hpp"

using simd::all;
using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

constexpr int kTile = 64;  // queries and keys in a tile of S

struct Head {  // one head of one sequence: rows `stride` apart
  const float* data;
  size_t stride;
  MatrixView rows(int first) const { return {data + first * stride, stride, 1}; }
  MatrixView transposed(int first) const { return {data + first * stride, 1, stride}; }
};

// s (queries, kTile) = q[q0..] · k[k0..]ᵀ / √D
void scores(float* s, const Head& q, int q0, int queries, const Head& k, int k0, int keys, int D) {
  gemm_serial(s, kTile, q.rows(q0), k.transposed(k0), queries, keys, D, false);
  const float scale = 1 / std::sqrt(static_cast<float>(D));
  for (int i = 0; i < queries; ++i)
    for (int j = 0; j < keys; ++j) s[i * kTile + j] *= scale;
}

// How many of a tile's keys, which start at k0, the query at position `at` may see.
int visible(int at, int k0, int keys) { return std::min(keys, at - k0 + 1); }

// row = exp(row − shift), zero beyond `seen`; returns the sum.
float exponentials(float* row, float shift, int seen, int keys) {
  Vec sum = {};
  sweep(seen, [&](int j, int lanes) {
    const Vec e = simd::exp(load(row + j, lanes, -INFINITY) - shift);
    store(row + j, e, lanes);
    sum += e;
  });
  for (int j = seen; j < keys; ++j) row[j] = 0;
  return static_cast<float>(simd::sum(sum));
}

float largest(const float* row, int n) {
  Vec top = all(row[0]);
  sweep(n, [&](int j, int lanes) { top = simd::max(load(row + j, lanes, row[0]), top); });
  return simd::max(top);
}

void scale_row(float* row, float factor, int n) {
  for (int i = 0; i < n; ++i) row[i] *= factor;
}

// One tile of queries of one head: out rows `out_stride` apart, lse one number a query.
void forward_tile(float* out, size_t out_stride, float* lse, const Head& q, const Head& k, const Head& v, int q0,
                  int queries, int past, int D, const Dropout& dropout, int b, int h, int layer) {
  alignas(64) float s[kTile * kTile];
  float top[kTile], sum[kTile];  // running maximum and sum of exponentials of each row
  for (int k0 = 0; k0 <= past + q0 + queries - 1; k0 += kTile) {
    const int keys = std::min(kTile, past + q0 + queries - k0);
    scores(s, q, q0, queries, k, k0, keys, D);
    for (int i = 0; i < queries; ++i) {
      float* row = s + i * kTile;
      const int seen = visible(past + q0 + i, k0, keys);
      if (seen <= 0) {  // this key tile lies wholly in the future of query i
        std::fill_n(row, keys, 0.f);
        continue;
      }
      const float tile_top = largest(row, seen);
      const float new_top = k0 == 0 ? tile_top : std::max(top[i], tile_top);
      const float tile_sum = exponentials(row, new_top, seen, keys);
      const float shrink = k0 == 0 ? 0 : std::exp(top[i] - new_top);  // what was summed so far was too large
      sum[i] = k0 == 0 ? tile_sum : sum[i] * shrink + tile_sum;
      if (k0 != 0) scale_row(out + i * out_stride, shrink, D);
      top[i] = new_top;
      if (dropout.p > 0)
        dropout_line(row, dropout.key(b, layer, DropoutSite::attention,
                                      (static_cast<uint64_t>(h) << 32) | static_cast<uint32_t>(q0 + i)),
                     dropout.p, k0, keys);
    }
    gemm_serial(out, out_stride, {s, kTile, 1}, v.rows(k0), queries, D, keys, k0 != 0);
  }
  for (int i = 0; i < queries; ++i) {
    scale_row(out + i * out_stride, 1 / sum[i], D);
    lse[i] = top[i] + std::log(sum[i]);
  }
}

}  // namespace

void attention_forward(float* out, float* lse, const float* q, size_t q_stride, const KeysValues& kv,
                       const AttentionShape& shape, const Dropout& dropout, int layer) {
  const int H = shape.n_head, D = shape.head_dim, T = shape.T;
  const int tiles = (T + kTile - 1) / kTile;
  const size_t out_stride = shape.width(), kv_rows = kv.past + T;
  parallel_tasks(shape.B * H * tiles, [&](int task) {
    const int q0 = task % tiles * kTile, h = task / tiles % H, b = task / tiles / H;
    const size_t row = static_cast<size_t>(b) * T, kv_at = b * kv_rows * kv.stride + h / (H / shape.kv_heads) * D;
    forward_tile(out + (row + q0) * out_stride + h * D, out_stride, lse + (static_cast<size_t>(b) * H + h) * T + q0,
                 {q + row * q_stride + h * D, q_stride}, {kv.k + kv_at, kv.stride}, {kv.v + kv_at, kv.stride}, q0,
                 std::min(kTile, T - q0), kv.past, D, dropout, b, h, layer);
  });
}

void attention_forward(float* out, float* lse, const float* qkv, const AttentionShape& shape,
                       const Dropout& dropout, int layer) {
  const size_t stride = shape.qkv_width(), k_at = shape.width(), v_at = k_at + shape.kv_heads * shape.head_dim;
  attention_forward(out, lse, qkv, stride, {qkv + k_at, qkv + v_at, stride}, shape, dropout, layer);
}

namespace {

// dS (in place of dP) = P·(dP − Δ)/√D; the /√D belongs to dq and dk.
void score_gradients(float* dp, const float* p, const float* delta, int queries, int keys, int D) {
  const float scale = 1 / std::sqrt(static_cast<float>(D));
  for (int i = 0; i < queries; ++i)
    for (int j = 0; j < keys; ++j) {
      float& d = dp[i * kTile + j];
      d = p[i * kTile + j] * (d - delta[i]) * scale;
    }
}

float dot(const float* a, const float* b, int n) {
  Vec sum = {};
  sweep(n, [&](int i, int lanes) { sum += load(a + i, lanes) * load(b + i, lanes); });
  return static_cast<float>(simd::sum(sum));
}

}  // namespace

void attention_backward(float* dqkv, const float* dout, const float* out, const float* lse, const float* qkv,
                        const AttentionShape& shape, const Dropout& dropout, int layer) {
  const int H = shape.n_head, KV = shape.kv_heads, D = shape.head_dim, T = shape.T, group = H / KV;
  const size_t stride = shape.qkv_width(), width = shape.width();
  const size_t k_at = width, v_at = k_at + static_cast<size_t>(KV) * D;
  // One task owns the gradients of one key/value head and of the query heads that read it, so nothing is
  // shared between tasks.
  parallel_tasks(shape.B * KV, [&](int task) {
    const int b = task / KV, kv = task % KV;
    const size_t row0 = static_cast<size_t>(b) * T;
    const float* base = qkv + row0 * stride;
    float* dbase = dqkv + row0 * stride;
    const Head k{base + k_at + kv * D, stride}, v{base + v_at + kv * D, stride};
    float *dk = dbase + k_at + kv * D, *dv = dbase + v_at + kv * D;
    alignas(64) float p[kTile * kTile], dropped[kTile * kTile], ds[kTile * kTile];
    float delta[kTile];
    for (int h = kv * group; h < (kv + 1) * group; ++h) {
      const Head q{base + h * D, stride}, dy{dout + row0 * width + h * D, width};
      const float* y = out + row0 * width + h * D;
      const float* row_lse = lse + (static_cast<size_t>(b) * H + h) * T;
      for (int q0 = 0; q0 < T; q0 += kTile) {
        const int queries = std::min(kTile, T - q0);
        for (int i = 0; i < queries; ++i)
          delta[i] = dot(dy.data + (q0 + i) * width, y + (q0 + i) * width, D);
        for (int k0 = 0; k0 <= q0; k0 += kTile) {
          const int keys = std::min(kTile, q0 + queries - k0);
          // The first head to reach a key tile writes dk and dv, all later ones add.
          const bool add = h != kv * group || k0 != q0;
          scores(p, q, q0, queries, k, k0, keys, D);
          gemm_serial(ds, kTile, dy.rows(q0), v.transposed(k0), queries, keys, D, false);  // out = P v: dP
          for (int i = 0; i < queries; ++i)
            exponentials(p + i * kTile, row_lse[q0 + i], visible(q0 + i, k0, keys), keys);
          const float* weights = p;  // what v was multiplied by: P, or P after dropout
          if (dropout.p > 0) {
            std::copy_n(p, kTile * kTile, dropped);
            for (int i = 0; i < queries; ++i) {
              const uint64_t key = dropout.key(b, layer, DropoutSite::attention,
                                               (static_cast<uint64_t>(h) << 32) | static_cast<uint32_t>(q0 + i));
              dropout_line(dropped + i * kTile, key, dropout.p, k0, keys);
              dropout_line(ds + i * kTile, key, dropout.p, k0, keys);
            }
            weights = dropped;
          }
          gemm_serial(dv + k0 * stride, stride, {weights, 1, kTile}, dy.rows(q0), keys, D, queries, add);
          score_gradients(ds, p, delta, queries, keys, D);
          gemm_serial(dbase + h * D + q0 * stride, stride, {ds, kTile, 1}, k.rows(k0), queries, D, keys, k0 != 0);
          gemm_serial(dk + k0 * stride, stride, {ds, 1, kTile}, q.rows(q0), keys, D, queries, add);
        }
      }
    }
  });
}
