// The ladder of causal attention: from the textbook, which keeps a (T,T) matrix of every head, to attention_forward and
// attention_backward.
//
//   qkv (B,T,3·H·D): rows q|k|v      out (B,T,H·D)      lse (B,H,T)
//
// Speed counts only the work in the formulas: causal pairs (query, key), D multiply-adds for each of the products q·k
// and P·v forward, and for each of dV, dP, dq and dk backward. Extra work of a rung (tiles in the future, computing P
// again) lowers its share.

#include "layers/attention/attention.hpp"

#include <algorithm>
#include <cmath>

#include "ladder.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/kernels/simd.hpp"
#include "layers/textbook/attention.hpp"

namespace {

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

// The operations of both passes, dot products of rows and sums of rows: one number at a time ...
struct Scalar {
  static float dot(const float* a, const float* b, int n) {
    float sum = 0;
    for (int i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }
  static void add(float* y, float factor, const float* x, int n) {
    for (int i = 0; i < n; ++i) y[i] += factor * x[i];
  }
};

// ... and as vectors.
struct Vectors {
  static float dot(const float* a, const float* b, int n) {
    Vec sum = {};
    sweep(n, [&](int i, int lanes) { sum += load(a + i, lanes) * load(b + i, lanes); });
    return static_cast<float>(simd::sum(sum));
  }
  static void add(float* y, float factor, const float* x, int n) {
    sweep(n, [&](int i, int lanes) { store(y + i, load(y + i, lanes) + factor * load(x + i, lanes), lanes); });
  }
};

void scale(float* x, float factor, int n) {
  for (int i = 0; i < n; ++i) x[i] *= factor;
}

// One head of one sequence, and its gradients. Rows of q, k, v, dq, dk, dv are `stride` apart, of out and dout `width`.
struct Head {
  const float *q, *k, *v;
  float *out, *lse;
  const float* dout;
  float *dq, *dk, *dv;
  size_t stride, width;
  int T, D;
  float factor;  // 1/√D

  // Row t of a buffer.
  template <class Number>
  Number* at(Number* first, int t) const { return first + static_cast<size_t>(t) * stride; }
  template <class Number>
  Number* out_at(Number* first, int t) const { return first + static_cast<size_t>(t) * width; }
};

// ---- forward ----

// Running softmax, without a (T,T) matrix (Milakov & Gimelshein 2018, arXiv 1805.02867). A query visits its keys once
// and adds exp(S − top)·v for each. If a key raises the maximum `top`, the sum so far is scaled down to match.
//
// Vectors. The same with another Ops.
template <class Ops>
void running_softmax(const Head& a) {
  for (int i = 0; i < a.T; ++i) {
    float *out = a.out_at(a.out, i), top = -INFINITY, sum = 0;
    std::fill_n(out, a.D, 0.f);
    for (int j = 0; j <= i; ++j) {
      const float s = Ops::dot(a.at(a.q, i), a.at(a.k, j), a.D) * a.factor;
      if (s > top) {
        const float shrink = std::exp(top - s);
        sum *= shrink, top = s;
        scale(out, shrink, a.D);
      }
      const float p = std::exp(s - top);
      sum += p;
      Ops::add(out, p, a.at(a.v, j), a.D);
    }
    scale(out, 1 / sum, a.D);
    a.lse[i] = top + std::log(sum);
  }
}

constexpr int kTile = 64;  // keys, and in tiles queries too

// The running softmax of one query. Takes the scores of some keys, of which the query sees the first `seen`, and
// replaces them by exp(S − top), zero for the others.
struct Softmax {
  float top = -INFINITY, sum = 0;

  void take_in(float* s, int seen, int keys, const Head& a, float* out) {
    std::fill(s + std::max(seen, 0), s + keys, 0.f);
    if (seen <= 0) return;
    Vec largest = simd::all(-INFINITY), total = {};
    sweep(seen, [&](int j, int lanes) { largest = simd::max(largest, load(s + j, lanes, -INFINITY)); });
    const float new_top = std::max(top, simd::max(largest) * a.factor), shrink = std::exp(top - new_top);
    sweep(seen, [&](int j, int lanes) {
      const Vec p = simd::exp(load(s + j, lanes, -INFINITY) * a.factor - new_top);
      store(s + j, p, lanes);
      total += p;
    });
    sum = sum * shrink + static_cast<float>(simd::sum(total)), top = new_top;
    scale(out, shrink, a.D);
  }
  void finish(float* out, float* lse, int D) const {
    scale(out, 1 / sum, D);
    *lse = top + std::log(sum);
  }
};

// Blocks of keys. One maximum and one rescaling for 64 keys, and their exponentials are vectors too.
void key_blocks(const Head& a) {
  float s[kTile];
  for (int i = 0; i < a.T; ++i) {
    Softmax softmax;
    float* out = a.out_at(a.out, i);
    std::fill_n(out, a.D, 0.f);
    for (int k0 = 0; k0 <= i; k0 += kTile) {
      const int keys = std::min(kTile, i + 1 - k0);
      for (int j = 0; j < keys; ++j) s[j] = Vectors::dot(a.at(a.q, i), a.at(a.k, k0 + j), a.D);
      softmax.take_in(s, keys, keys, a, out);
      for (int j = 0; j < keys; ++j) Vectors::add(out, s[j], a.at(a.v, k0 + j), a.D);
    }
    softmax.finish(out, a.lse + i, a.D);
  }
}

// Tiles. With 64 queries by 64 keys both products are matrix products, and gemm's register tile computes them: one load
// of a key serves several queries. This rung computes all tiles; half of them are in the future and add nothing.
//
// Skipping. Leaves out a tile whose first key comes after its last query.
template <bool skip>
void tiles(const Head& a) {
  alignas(64) float s[kTile * kTile];
  for (int q0 = 0; q0 < a.T; q0 += kTile) {
    const int queries = std::min(kTile, a.T - q0), end = skip ? q0 + queries : a.T;
    Softmax softmax[kTile];
    for (int i = 0; i < queries; ++i) std::fill_n(a.out_at(a.out, q0 + i), a.D, 0.f);
    for (int k0 = 0; k0 < end; k0 += kTile) {
      const int keys = std::min(kTile, end - k0);
      gemm_serial({s, kTile}, {a.at(a.q, q0), a.stride, 1}, {a.at(a.k, k0), 1, a.stride}, queries, keys, a.D, false);
      for (int i = 0; i < queries; ++i)
        softmax[i].take_in(s + i * kTile, std::min(keys, q0 + i + 1 - k0), keys, a, a.out_at(a.out, q0 + i));
      gemm_serial({a.out_at(a.out, q0), a.width}, {s, kTile, 1}, {a.at(a.v, k0), a.stride, 1}, queries, a.D, keys,
                  true);
    }
    for (int i = 0; i < queries; ++i) softmax[i].finish(a.out_at(a.out, q0 + i), a.lse + q0 + i, a.D);
  }
}

// ---- backward ----

// Recomputing P. P[i,j] = exp(S[i,j] − lse[i]) costs one dot product, so forward saves nothing of size (T,T).
// Δ[i] = Σⱼ P[i,j] dP[i,j] = dout[i]·out[i] is known before the first key (Dao et al. 2022, arXiv 2205.14135).
//
// Vectors. The same with another Ops.
template <class Ops>
void recompute(const Head& a) {
  for (int t = 0; t < a.T; ++t)
    for (float* d : {a.dq, a.dk, a.dv}) std::fill_n(a.at(d, t), a.D, 0.f);
  for (int i = 0; i < a.T; ++i) {
    const float *q = a.at(a.q, i), *dy = a.out_at(a.dout, i);
    const float delta = Ops::dot(dy, a.out_at(a.out, i), a.D);
    for (int j = 0; j <= i; ++j) {
      const float p = std::exp(Ops::dot(q, a.at(a.k, j), a.D) * a.factor - a.lse[i]);
      const float dp = Ops::dot(dy, a.at(a.v, j), a.D), ds = p * (dp - delta) * a.factor;
      Ops::add(a.at(a.dv, j), p, dy, a.D);
      Ops::add(a.at(a.dq, i), ds, a.at(a.k, j), a.D);
      Ops::add(a.at(a.dk, j), ds, q, a.D);
    }
  }
}

// Replaces a row of scores and a row of dP by P and dS, zero after the first `seen` keys.
void score_gradients(float* p, float* ds, float lse, float delta, float factor, int seen, int keys) {
  sweep(seen, [&](int j, int lanes) {
    const Vec e = simd::exp(load(p + j, lanes) * factor - lse);
    store(p + j, e, lanes);
    store(ds + j, e * (load(ds + j, lanes) - delta) * factor, lanes);
  });
  std::fill(p + seen, p + keys, 0.f), std::fill(ds + seen, ds + keys, 0.f);
}

// Tiles. All five products become matrix products, and the exponentials are vectors along the keys. The first tile of
// queries for a tile of keys is on the diagonal: it writes dk and dv, and later ones add to them.
void tiles_backward(const Head& a) {
  alignas(64) float p[kTile * kTile], ds[kTile * kTile];
  const size_t x = a.stride, y = a.width;  // from row to row
  for (int q0 = 0; q0 < a.T; q0 += kTile)
    for (int k0 = 0; k0 <= q0; k0 += kTile) {
      const int queries = std::min(kTile, a.T - q0), keys = std::min(kTile, a.T - k0);
      const float *q = a.at(a.q, q0), *k = a.at(a.k, k0), *v = a.at(a.v, k0), *dy = a.out_at(a.dout, q0);
      gemm_serial({p, kTile}, {q, x, 1}, {k, 1, x}, queries, keys, a.D, false);    // S = q kᵀ
      gemm_serial({ds, kTile}, {dy, y, 1}, {v, 1, x}, queries, keys, a.D, false);  // out = P v: dP = dout vᵀ
      for (int i = 0; i < queries; ++i) {
        const float delta = Vectors::dot(dy + i * y, a.out_at(a.out, q0 + i), a.D);
        score_gradients(p + i * kTile, ds + i * kTile, a.lse[q0 + i], delta, a.factor,
                        std::min(keys, q0 + i + 1 - k0), keys);
      }
      gemm_serial({a.at(a.dv, k0), x}, {p, 1, kTile}, {dy, y, 1}, keys, a.D, queries, k0 < q0);  // out = P v
      gemm_serial({a.at(a.dq, q0), x}, {ds, kTile, 1}, {k, x, 1}, queries, a.D, keys, k0 > 0);   // S = q kᵀ
      gemm_serial({a.at(a.dk, k0), x}, {ds, 1, kTile}, {q, x, 1}, keys, a.D, queries, k0 < q0);  // S = q kᵀ
    }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<int> sizes = sizes_from(argc, argv, "T heads head-size", {1024, 12, 64});
  const int T = sizes[0], H = sizes[1], D = sizes[2];
  const AttentionShape shape{1, T, H, H, D};
  const textbook::AttentionShape book_shape{1, size_t(T), size_t(H), size_t(H), size_t(D)};
  const size_t rows_of_S = static_cast<size_t>(H) * T, out_size = rows_of_S * D;
  const Tensor qkv(3 * out_size, 1), dout(out_size, 2), out(out_size), lse(rows_of_S), dqkv(3 * out_size);
  const Tensor P(rows_of_S * T);

  std::vector<double> want(out_size), want_dqkv(3 * out_size);
  {
    const std::vector<double> wide = qkv.widen();
    std::vector<double> wide_P(P.size);
    textbook::attention_forward<double>(want.data(), wide_P.data(), wide.data(), nullptr, book_shape);
    textbook::attention_backward<double>(want_dqkv.data(), dout.widen().data(), wide_P.data(), wide.data(), nullptr,
                                         book_shape);
  }

  const auto each_head = [&](void (*pass)(const Head&)) {
    for (int h = 0; h < H; ++h) {
      const size_t k_at = static_cast<size_t>(H) * D, at = static_cast<size_t>(h) * D;
      const float* q = qkv.get() + at;
      float* dq = dqkv.get() + at;
      pass({q, q + k_at, q + 2 * k_at, out.get() + at, lse.get() + static_cast<size_t>(h) * T, dout.get() + at, dq,
            dq + k_at, dq + 2 * k_at, 3 * k_at, k_at, T, D, 1 / std::sqrt(static_cast<float>(D))});
    }
  };
  const double product = .5 * T * (T + 1.) * H * 2 * D;  // floating-point operations of one of the products
  const Ceiling ceiling = flops_ceiling();
  const std::string title = ", T " + std::to_string(T) + ", H " + std::to_string(H) + ", D " + std::to_string(D);

  Ladder forward("attention_forward" + title, 2 * product, "FLOP", ceiling, {{out, want}});
  forward.rung("textbook: a (T,T) matrix for each head", Threads::one, [&] {
    textbook::attention_forward<float>(out.get(), P.get(), qkv.get(), nullptr, book_shape);
  });
  forward.rung("running softmax: no (T,T) matrix", Threads::one, [&] { each_head(running_softmax<Scalar>); });
  forward.rung("vectors: W numbers of a row at a time", Threads::one, [&] { each_head(running_softmax<Vectors>); });
  forward.rung("keys by the block: exponentials are vectors", Threads::one, [&] { each_head(key_blocks); });
  forward.rung("tiles: the gemm multiplies them", Threads::one, [&] { each_head(tiles<false>); });
  forward.rung("tiles in the future are skipped", Threads::one, [&] { each_head(tiles<true>); });
  const auto forward_product = [&] { attention_forward(out.get(), lse.get(), qkv.get(), shape, {}, 0); };
  forward.rung("the product on one thread", Threads::one, forward_product);
  forward.rung("threads: queries by the tile (attention_forward)", Threads::all, forward_product);

  Ladder backward("attention_backward" + title, 4 * product, "FLOP", ceiling, {{dqkv, want_dqkv}});
  backward.rung("textbook: reads the (T,T) matrices again", Threads::one, [&] {
    textbook::attention_backward<float>(dqkv.get(), dout.get(), P.get(), qkv.get(), nullptr, book_shape);
  });
  backward.rung("P once more, from the log-sum-exp", Threads::one, [&] { each_head(recompute<Scalar>); });
  backward.rung("vectors: W numbers of a row at a time", Threads::one, [&] { each_head(recompute<Vectors>); });
  backward.rung("tiles: the gemm multiplies them", Threads::one, [&] { each_head(tiles_backward); });
  const auto backward_product = [&] {
    attention_backward(dqkv.get(), dout.get(), out.get(), lse.get(), qkv.get(), shape, {}, 0);
  };
  backward.rung("the product on one thread", Threads::one, backward_product);
  backward.rung("threads: the work is shared (attention_backward)", Threads::all, backward_product);
  return Ladder::exit_status();
}
