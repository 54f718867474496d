#include "attention.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include "layers/kernels/buffer.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"
#include "operands.hpp"
#include "scores.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

// A tile holds kQueries queries. Their products with the keys are stored with one row per key, so that the softmax of W
// queries is one loop over keys. A `column` points to the first of W queries in the row of the tile's first key.
constexpr int kQueries = kTile;
constexpr size_t key_row(int j) { return static_cast<size_t>(j) * kQueries; }

int whole_vectors(int n) { return (n + simd::W - 1) / simd::W * simd::W; }

// Returns scratch memory that belongs to this thread, for one use at a time.
enum class Use { queries, keys };
float* scratch(Use use, size_t floats) {
  struct Memory { Buffer buffer; size_t floats = 0; };
  thread_local Memory of_uses[2];
  Memory& memory = of_uses[static_cast<int>(use)];
  if (memory.floats < floats) {
    memory.buffer.reset();  // never both
    memory = {allocate(floats), floats};
  }
  return memory.buffer.get();
}

// The part of a tile that a causal product may leave out.
Triangle triangle(const AttentionShape& shape, Triangle::Part part, int diagonal) {
  return shape.causal ? Triangle{part, diagonal} : Triangle{};
}

struct HeadRows {  // one head of one sequence: rows `stride` apart
  const float* data;
  size_t stride;
  MatrixView rows(int first) const { return {data + first * stride, stride, 1}; }
};

HeadRows copied(float* to, const float* from, size_t stride, int rows, int D) {
  for (int i = 0; i < rows; ++i) std::copy_n(from + i * stride, D, to + static_cast<size_t>(i) * D);
  return {to, static_cast<size_t>(D)};
}

// Transposed rows: element d of row i is at data[d·kQueries + i]. The last vector is padded with zeros.
MatrixView transposed(float* to, const float* from, size_t stride, int rows, int D) {
  transpose(to, kQueries, from, stride, rows, D);
  return {to, kQueries, 1};
}

// The keys and values of a head as operands, tile by tile, made once for all tiles of queries.
class KeyTiles {
 public:
  enum Form { k_left, k_right, v_left, v_right };  // (keys,D) at the left or at the right of a product

  // Keys [first, end), where a tile begins at `first`.
  KeyTiles(const AttentionShape& shape, HeadRows k, HeadRows v, std::initializer_list<Form> forms, int first, int end)
      : first_(first), step_(kTile * k.stride) {
    for (const Form form : forms) views_[form] = (form < v_left ? k : v).rows(first);
    if (!shape.words) return;
    const int D = shape.head_dim, tiles = (end - first + kTile - 1) / kTile;
    const size_t room = Operands::room(shape, 1, 0);
    step_ = room * forms.size();
    float* to = scratch(Use::keys, tiles * step_) + tiles * step_;
    for (int k0 = first + (tiles - 1) * kTile; k0 >= first; k0 -= kTile)  // the first tile is last and sets views_
      for (const Form form : forms) {
        const int keys = std::min(kTile, end - k0);
        const MatrixView rows = (form < v_left ? k : v).rows(k0);
        Operands of(shape, to -= room);
        views_[form] = form == k_left || form == v_left ? of.left(rows, keys, D) : of.right(rows, keys, D);
      }
  }
  MatrixView operator()(Form form, int k0) const {
    const MatrixView& first = views_[form];
    return {first.data + (k0 - first_) / kTile * step_, first.row, first.col};
  }

 private:
  int first_;
  size_t step_;  // floats from tile to tile
  MatrixView views_[4];
};

void scale_row(float* row, float factor, int n) {
  sweep(n, [&](int i, int lanes) { store(row + i, load(row + i, lanes) * factor, lanes); });
}

// Zeroes the columns of W queries for keys that none of them sees.
void clear_unseen(float* column, const Scores& scores, int keys) {
  for (int j = 0; j < scores.begin; ++j) store(column + key_row(j), Vec{});
  for (int j = scores.end; j < keys; ++j) store(column + key_row(j), Vec{});
}

// The dropout of a layer's weights.
struct WeightDropout {
  Dropout dropout;
  int layer;
  DropoutSite site;

  WeightDropout(const Dropout& of, int in, const AttentionShape& shape)
      : dropout(of), layer(in), site(shape.crosses() ? DropoutSite::cross : DropoutSite::attention) {}
};

// Writes the multipliers of dropout for W queries from query i on; m[j·W ...] belongs to key k0 + j.
void dropout_columns(float* m, const WeightDropout& at, int b, int h, int i, int k0, int keys) {
  alignas(64) float rows[simd::W * kTile];
  std::fill_n(rows, simd::W * kTile, 1.f);
  for (int q = 0; q < simd::W; ++q)
    dropout_line(rows + q * kTile, at.dropout.attention_key(b, at.layer, h, i + q, at.site), at.dropout.p, k0, keys);
  transpose(m, simd::W, rows, kTile, simd::W, keys);
}

// Everything that forward reads and writes.
struct Forward {
  float *out, *lse;
  const float* q;
  size_t q_stride;
  const KeysValues& kv;
  const AttentionShape& shape;
  WeightDropout drop;

  int group() const { return shape.n_head / shape.kv_heads; }
  KeyTiles keys(int b, int head, int first, int end) const {
    const size_t at = b * kv.length * kv.stride + head * shape.head_dim;
    return {shape, {kv.k + at, kv.stride}, {kv.v + at, kv.stride}, {KeyTiles::k_left, KeyTiles::v_right}, first, end};
  }
};

// A tile of queries of one head, and their running softmax.
struct Running {
  int b, h, q0, queries;
  SeenKeys seen;
  alignas(64) float top[kQueries], sum[kQueries];  // the largest score, and the sum of all exp(score − top)
  alignas(64) float shrink[kQueries];              // the factor by which the last tile of keys lowered earlier sums

  Running(const Forward& w, int batch, int head, int first)
      : b(batch), h(head), q0(first), queries(std::min(kQueries, w.shape.T - first)),
        seen(w.shape, batch, first, w.kv.past) {
    const float* sinks = w.shape.sinks;  // a sink is the first score, without a value
    std::fill_n(top, kQueries, sinks ? sinks[h] : std::numeric_limits<float>::lowest());  // not −∞: −∞ − (−∞) is NaN
    std::fill_n(sum, kQueries, sinks ? 1.f : 0.f);
  }
};

struct Keys {  // a tile of keys
  int k0, keys;
  bool first;
};

// Adds a tile of keys to the softmax of W queries from query i on. Turns their columns, the products with the keys,
// into weights.
void forward_columns(float* column, const Forward& w, Running& t, int i, const Keys& tile) {
  const int k0 = tile.k0, keys = tile.keys;
  if (w.shape.cap > 0) cap_columns(column, kQueries, nullptr, w.shape, keys);
  const Scores scores(w.shape, t.h, t.seen, i, k0, keys);
  Vec top = load(t.top + i), sum = {};
  scores.each(column, kQueries, Vec{}, [&](int, Vec s) { top = simd::max(s, top); });
  scores.each(column, kQueries, top, [&](int j, Vec s) {
    const Vec e = simd::exp(s);
    store(column + key_row(j), e);
    sum += e;
  });
  clear_unseen(column, scores, keys);
  const Vec shrink = simd::exp(load(t.top + i) - top);  // rescales the earlier sums to the new maximum
  store(t.sum + i, load(t.sum + i) * shrink + sum);
  store(t.top + i, top);
  store(t.shrink + i, shrink);
  if (w.drop.dropout.p == 0) return;
  alignas(64) float m[kTile * simd::W];
  dropout_columns(m, w.drop, t.b, t.h, t.q0 + i, k0, keys);
  for (int j = 0; j < keys; ++j) store(column + key_row(j), load(column + key_row(j)) * load(m + j * simd::W));
}

void forward_queries(const Forward& w, Running& t, const KeyTiles& tiles) {
  const AttentionShape& shape = w.shape;
  const int b = t.b, h = t.h, q0 = t.q0;
  const int H = shape.n_head, D = shape.head_dim;
  const size_t row = static_cast<size_t>(b) * shape.T, out_stride = shape.width();
  float* out = w.out + (row + q0) * out_stride + h * D;
  float* lse = w.lse + row * H + static_cast<size_t>(h) * shape.T + q0;

  alignas(64) float s[kTile * kQueries];
  float* copies = scratch(Use::queries, kQueries * D + Operands::room(shape, 1, 1));
  Operands of_queries(shape, copies + kQueries * D);
  const int whole = whole_vectors(t.queries);
  const MatrixView q = of_queries.right(
      transposed(copies, w.q + (row + q0) * w.q_stride + h * D, w.q_stride, t.queries, D), D, whole);
  const int last = t.seen.end();
  for (int k0 = t.seen.first_tile(); k0 < last; k0 += kTile) {
    const Keys tile{k0, std::min(kTile, last - k0), k0 == t.seen.first_tile()};
    const int diagonal = t.seen.at - k0;
    Operands of = of_queries;
    of.multiply({s, kQueries}, tiles(KeyTiles::k_left, k0), q, tile.keys, whole, D, false,
                triangle(shape, Triangle::c_upper, diagonal));  // k qᵀ; Scores turns it into S
    for (int i = 0; i < t.queries; i += simd::W) forward_columns(s + i, w, t, i, tile);
    for (int i = 0; !tile.first && i < t.queries; ++i)
      if (t.shrink[i] != 1) scale_row(out + i * out_stride, t.shrink[i], D);
    of.multiply({out, out_stride}, of.left({s, 1, kQueries}, t.queries, tile.keys), tiles(KeyTiles::v_right, k0),
                t.queries, D, tile.keys, !tile.first, triangle(shape, Triangle::a_lower, diagonal));
  }
  for (int i = 0; i < t.queries; ++i) {
    scale_row(out + i * out_stride, 1 / t.sum[i], D);
    lse[i] = t.top[i] + std::log(t.sum[i]);
  }
}

// The query heads that read a key/value head.
void forward_of_heads(const Forward& w, int b, int kv) {
  const int keys = w.shape.crosses() ? w.shape.keys() : w.kv.past + w.shape.T;
  const KeyTiles tiles = w.keys(b, kv, SeenKeys(w.shape, b, 0, w.kv.past).first_tile(), keys);
  for (int h = kv * w.group(); h < (kv + 1) * w.group(); ++h)
    for (int q0 = 0; q0 < w.shape.T; q0 += kQueries) {
      Running queries(w, b, h, q0);
      forward_queries(w, queries, tiles);
    }
}

}  // namespace

void attention_forward(float* out, float* lse, const float* q, size_t q_stride, const KeysValues& kv,
                       const AttentionShape& shape, const Dropout& dropout, int layer) {
  const Forward w{out, lse, q, q_stride, kv, shape, {dropout, layer, shape}};
  const int H = shape.n_head, KV = shape.kv_heads, pieces = (shape.T + kQueries - 1) / kQueries;
  if (shape.words && shape.B * KV >= max_threads()) {
    return parallel_equal_tasks(shape.B * KV, [&](int task) { forward_of_heads(w, task / KV, task % KV); });
  }
  const auto run = [&](int task) {
    const int h = task / pieces % H;
    Running queries(w, task / pieces / H, h, task % pieces * kQueries);
    const SeenKeys& seen = queries.seen;
    forward_queries(w, queries, w.keys(queries.b, h / w.group(), seen.first_tile(), seen.end()));
  };
  pieces == 1 ? parallel_equal_tasks(shape.B * H, run) : parallel_tasks(shape.B * H * pieces, run);
}

void attention_forward(float* out, float* lse, const QkvRows<const float>& x, const AttentionShape& shape,
                       const Dropout& dropout, int layer) {
  attention_forward(out, lse, x.q, x.q_stride, {x.k, x.v, x.kv_stride, 0, size_t(shape.keys())}, shape, dropout, layer);
}

void attention_forward(float* out, float* lse, const float* qkv, const AttentionShape& shape,
                       const Dropout& dropout, int layer) {
  attention_forward(out, lse, parts_of(qkv, shape), shape, dropout, layer);
}

namespace {

// Everything that backward reads and writes, and where one head of one sequence begins.
struct Backward {
  AttentionGradients d;
  const float *dout, *out, *lse;
  QkvRows<const float> x;
  AttentionShape shape;
  WeightDropout drop;
  std::vector<double>& bucket_sums;  // (B,H,pieces,buckets) of dS; empty unless relative positions learn

  int pieces() const { return (shape.T + kQueries - 1) / kQueries; }
  int group() const { return shape.n_head / shape.kv_heads; }
  // Returns the first tile of queries that sees a key of the tile at k0.
  int first_queries(int b, int k0) const {
    // In self-attention query k0 does. end_of_keys() never decreases, so search by halves.
    int some = shape.crosses() ? shape.T : k0, none = shape.causal ? k0 : 0;
    while (none < some) {
      const int middle = none + (some - none) / 2;
      end_of_keys(shape, b, middle) > k0 ? some = middle : none = middle + 1;
    }
    return some / kQueries * kQueries;
  }
  // Returns the end of the queries that see a key of the tile at k0: the first one whose keys all come later.
  int end_of_queries(int b, int k0) const {
    // In self-attention these do. first_key() never decreases, so search by halves.
    int end = shape.crosses() ? 0 : std::min(shape.T, k0 + kTile), none = shape.T;
    while (end < none) {
      const int middle = end + (none - end) / 2;
      first_key(shape, b, middle) < k0 + kTile ? end = middle + 1 : none = middle;
    }
    return end;
  }
  size_t q_at(int b, int h) const { return static_cast<size_t>(b) * shape.T * x.q_stride + h * shape.head_dim; }
  size_t kv_at(int b, int kv) const {
    return static_cast<size_t>(b) * shape.keys() * x.kv_stride + kv * shape.head_dim;
  }
  size_t out_at(int b, int h) const { return static_cast<size_t>(b) * shape.T * shape.width() + h * shape.head_dim; }
  int key_tiles() const { return (shape.keys() + kTile - 1) / kTile; }
  KeyTiles keys(int b, int kv, int first, int end) const {
    const size_t at = kv_at(b, kv);
    return {shape, {x.k + at, x.kv_stride}, {x.v + at, x.kv_stride},
            {KeyTiles::k_left, KeyTiles::k_right, KeyTiles::v_left}, first, end};
  }
};

// A tile of queries of one head, with what backward needs for every tile of keys.
struct Queries {
  int b, h, q0, queries;
  SeenKeys seen;
  MatrixView q, dy;                  // operands: (queries,D)
  MatrixView q_columns, dy_columns;  // (D,queries), up to a whole vector of queries
  Operands of;                       // its room is for the tiles of keys
  alignas(64) float lse[kQueries] = {};
  alignas(64) float delta[kQueries] = {};  // Δ = Σⱼ P·dP = dout·out

  Queries(const Backward& w, int batch, int head, int first)
      : b(batch), h(head), q0(first), queries(std::min(kQueries, w.shape.T - first)), seen(w.shape, batch, first),
        of(w.shape, nullptr) {
    const size_t D = w.shape.head_dim, width = w.shape.width(), at = w.out_at(b, h) + q0 * width;
    const int whole = whole_vectors(queries);
    float* copies = scratch(Use::queries, 4 * kQueries * D + Operands::room(w.shape, 4, 3));
    of = Operands(w.shape, copies + 4 * kQueries * D);
    const HeadRows q_rows = copied(copies, w.x.q + w.q_at(b, h) + q0 * w.x.q_stride, w.x.q_stride, queries, D);
    const HeadRows dy_rows = copied(copies + kQueries * D, w.dout + at, width, queries, D);
    q = of.right(q_rows.rows(0), queries, D);
    dy = of.right(dy_rows.rows(0), queries, D);
    q_columns = of.right(transposed(copies + 2 * kQueries * D, q_rows.data, D, queries, D), D, whole);
    dy_columns = of.right(transposed(copies + 3 * kQueries * D, dy_rows.data, D, queries, D), D, whole);
    std::copy_n(w.lse + (static_cast<size_t>(b) * w.shape.n_head + h) * w.shape.T + q0, queries, lse);
    for (int i = 0; i < queries; ++i)
      delta[i] = static_cast<float>(simd::dot(dy_rows.data + i * D, w.out + at + i * width, w.shape.head_dim));
  }
};

// Which gradients to compute: dq of a tile of queries, dk and dv of a tile of keys. The first tile of keys overwrites
// dq. The group's first head overwrites dk and dv with the first tile of queries. All later calls add. In cross
// attention some keys may have no query, so that their gradients start at zero.
struct Wanted {
  bool dq, dkv;
};

// A tile of the scores' gradients: products with the keys, which become P, and dP, which becomes s·dS.
struct BackwardTile {
  alignas(64) float p[kTile * kQueries], ds[kTile * kQueries];
  alignas(64) float dropped[kTile * kQueries];  // with dropout: what v was multiplied by
  alignas(64) float dbias[kTile * kQueries];    // dS, if relative positions learn
};

// Does so for W queries.
void backward_columns(BackwardTile& tile, const Backward& w, const Queries& t, int i, int k0, int keys) {
  float *p = tile.p + i, *ds = tile.ds + i, *dropped = tile.dropped + i, *dbias = tile.dbias + i;
  const bool relative = !w.bucket_sums.empty();
  alignas(64) float cap_slopes[kTile * simd::W], m[kTile * simd::W];
  const bool cap = w.shape.cap > 0, dropout = w.drop.dropout.p > 0;
  if (cap) cap_columns(p, kQueries, cap_slopes, w.shape, keys);
  if (dropout) dropout_columns(m, w.drop, t.b, t.h, t.q0 + i, k0, keys);
  const Scores scores(w.shape, t.h, t.seen, i, k0, keys);
  const Vec delta = load(t.delta + i);
  scores.each(p, kQueries, load(t.lse + i), [&](int j, Vec s) {
    const Vec e = simd::exp(s);  // P = exp(S − lse)
    Vec dp = load(ds + key_row(j));
    if (dropout) {
      store(dropped + key_row(j), e * load(m + j * simd::W));
      dp *= load(m + j * simd::W);
    }
    const Vec dscore = e * (dp - delta);  // P = softmax(S): dS = P·(dP − Δ)
    if (relative) store(dbias + key_row(j), e > Vec{} ? dscore : Vec{});  // a product may have left unseen dP out
    Vec d = dscore * w.shape.scale;  // for dq and dk
    if (cap) d *= load(cap_slopes + j * simd::W);  // S = c·tanh(...): dS ← dS·(1 − tanh²)
    store(p + key_row(j), e);
    store(ds + key_row(j), d);
  });
  clear_unseen(p, scores, keys);
  clear_unseen(ds, scores, keys);
  if (dropout) clear_unseen(dropped, scores, keys);
  if (relative) clear_unseen(dbias, scores, keys);
}

// Adds the dS of a tile to the sums of its queries, bucket by bucket.
void add_to_buckets(const Backward& w, const Queries& t, const float* dbias, int k0, int keys) {
  alignas(64) float sums[2 * kTile] = {};  // [kTile + d]: of the distance q0 − k0 + d
  for (int j = 0; j < keys; ++j) {
    float* of_key = sums + kTile - j;
    sweep(t.queries, [&](int i, int lanes) {
      store(of_key + i, load(of_key + i, lanes) + load(dbias + key_row(j) + i, lanes), lanes);
    });
  }
  const RelativeBias& relative = w.shape.relative;
  const int piece = (t.b * w.shape.n_head + t.h) * w.pieces() + t.q0 / kQueries;
  double* of_bucket = w.bucket_sums.data() + static_cast<size_t>(piece) * relative.count;
  for (int d = 1 - keys; d < t.queries; ++d)
    of_bucket[relative.buckets[t.q0 - k0 + d]] += static_cast<double>(sums[kTile + d]);
}

void backward_tile(const Backward& w, const Queries& t, const KeyTiles& tiles, int k0, Wanted wanted) {
  const int D = w.shape.head_dim, kv = t.h / w.group();
  const int keys = std::min(kTile, w.shape.keys() - k0);  // also those that none of the queries sees
  const int diagonal = t.q0 - k0, whole = whole_vectors(t.queries);
  const Triangle upper = triangle(w.shape, Triangle::c_upper, diagonal);
  const Triangle left = triangle(w.shape, Triangle::a_lower, diagonal);
  const Triangle right = triangle(w.shape, Triangle::a_upper, diagonal);
  const size_t q_stride = w.x.q_stride, stride = w.x.kv_stride, first = w.kv_at(t.b, kv);
  BackwardTile tile;
  float *p = tile.p, *ds = tile.ds;
  Operands of = t.of;
  // k qᵀ, which Scores turns into S, and dP from out = P v
  of.multiply({p, kQueries}, tiles(KeyTiles::k_left, k0), t.q_columns, keys, whole, D, false, upper);
  of.multiply({ds, kQueries}, tiles(KeyTiles::v_left, k0), t.dy_columns, keys, whole, D, false, upper);
  for (int i = 0; i < t.queries; i += simd::W) backward_columns(tile, w, t, i, k0, keys);
  if (wanted.dq && !w.bucket_sums.empty()) add_to_buckets(w, t, tile.dbias, k0, keys);
  const float* weights = w.drop.dropout.p > 0 ? tile.dropped : p;  // what v was multiplied by
  if (wanted.dq)  // S = scale·q kᵀ
    of.multiply({w.d.q + w.q_at(t.b, t.h) + t.q0 * q_stride, q_stride}, of.left({ds, 1, kQueries}, t.queries, keys),
                tiles(KeyTiles::k_right, k0), t.queries, D, keys, k0 > t.seen.first_tile(), left);
  if (!wanted.dkv) return;
  const bool add = w.shape.crosses() || t.h != kv * w.group() || t.q0 != w.first_queries(t.b, k0);
  const size_t at = first + k0 * stride;
  of.multiply({w.d.k + at, stride}, of.left({ds, kQueries, 1}, keys, t.queries), t.q, keys, D, t.queries, add, right);
  of.multiply({w.d.v + at, stride}, of.left({weights, kQueries, 1}, keys, t.queries), t.dy, keys, D, t.queries, add,
              right);  // out = P v
}

// In cross attention, zeroes the gradients of keys [k0, end).
void begin_keys(const Backward& w, int b, int kv, int k0, int end) {
  if (!w.shape.crosses()) return;
  for (int j = k0; j < std::min(end, w.shape.keys()); ++j)
    for (float* d : {w.d.k, w.d.v}) std::fill_n(d + w.kv_at(b, kv) + j * w.x.kv_stride, w.shape.head_dim, 0.f);
}

// Sums dk and dv of a tile of keys over the query heads that read it, and over the queries from this position on.
void backward_of_key_tile(const Backward& w, int b, int kv, int k0) {
  begin_keys(w, b, kv, k0, k0 + kTile);
  const KeyTiles tiles = w.keys(b, kv, k0, std::min(k0 + kTile, w.shape.keys()));
  for (int h = kv * w.group(); h < (kv + 1) * w.group(); ++h)
    for (int q0 = w.first_queries(b, k0); q0 < w.end_of_queries(b, k0); q0 += kQueries)
      backward_tile(w, Queries(w, b, h, q0), tiles, k0, {false, true});
}

// One task computes the gradients of a key/value head and of the query heads that read it.
void backward_of_heads(const Backward& w) {
  const AttentionShape& shape = w.shape;
  parallel_equal_tasks(shape.B * shape.kv_heads, [&](int task) {
    const int b = task / shape.kv_heads, kv = task % shape.kv_heads;
    begin_keys(w, b, kv, 0, shape.keys());
    const KeyTiles tiles = w.keys(b, kv, 0, shape.keys());
    for (int h = kv * w.group(); h < (kv + 1) * w.group(); ++h)
      for (int q0 = 0; q0 < shape.T; q0 += kQueries) {
        const Queries queries(w, b, h, q0);
        for (int k0 = queries.seen.first_tile(); k0 < queries.seen.end(); k0 += kTile)
          backward_tile(w, queries, tiles, k0, {true, true});
      }
  });
}

// If there are fewer heads than threads: each tile of queries and each tile of keys is a task. S and dP are computed
// twice. All sums have the same order as above.
void backward_of_tiles(const Backward& w) {
  const int H = w.shape.n_head, KV = w.shape.kv_heads, pieces = w.pieces(), tiles = w.key_tiles();
  parallel_tasks(w.shape.B * H * pieces, [&](int task) {
    const int piece = pieces - 1 - task % pieces;  // begin with the longest
    const Queries queries(w, task / pieces / H, task / pieces % H, piece * kQueries);
    const int first = queries.seen.first_tile();
    const KeyTiles tiles = w.keys(queries.b, queries.h / w.group(), first, queries.seen.end());
    for (int k0 = first; k0 < queries.seen.end(); k0 += kTile) backward_tile(w, queries, tiles, k0, {true, false});
  });
  parallel_tasks(w.shape.B * KV * tiles, [&](int task) {
    backward_of_key_tile(w, task / tiles / KV, task / tiles % KV, task % tiles * kTile);
  });
}

// Adds the sums of all sequences and tiles of queries, in their order.
void add_bucket_sums(float* drelative, const Backward& w) {
  const int H = w.shape.n_head, pieces = w.pieces(), count = w.shape.relative.count;
  for (int h = 0; h < H; ++h)
    for (int bucket = 0; bucket < count; ++bucket) {
      double sum = 0;
      for (int b = 0; b < w.shape.B; ++b)
        for (int piece = 0; piece < pieces; ++piece)
          sum += w.bucket_sums[(static_cast<size_t>(b * H + h) * pieces + piece) * count + bucket];
      drelative[static_cast<size_t>(bucket) * H + h] += static_cast<float>(sum);
    }
}

}  // namespace

void attention_backward(const AttentionGradients& d, const float* dout, const float* out, const float* lse,
                        const QkvRows<const float>& x, const AttentionShape& shape, const Dropout& dropout, int layer) {
  std::vector<double> bucket_sums;
  const Backward w{d, dout, out, lse, x, shape, {dropout, layer, shape}, bucket_sums};
  if (d.drelative) bucket_sums.resize(size_t(shape.B) * shape.n_head * w.pieces() * shape.relative.count);
  const int KV = shape.kv_heads;
  shape.B * KV >= max_threads() || w.pieces() * w.key_tiles() == 1 ? backward_of_heads(w) : backward_of_tiles(w);
  if (d.drelative) add_bucket_sums(d.drelative, w);
}

void attention_backward(float* dqkv, const float* dout, const float* out, const float* lse, const float* qkv,
                        const AttentionShape& shape, const Dropout& dropout, int layer) {
  attention_backward({parts_of(dqkv, shape)}, dout, out, lse, parts_of(qkv, shape), shape, dropout, layer);
}

void sinks_backward(float* dsinks, const float* dout, const float* out, const float* lse, const AttentionShape& shape) {
  const int H = shape.n_head, T = shape.T, D = shape.head_dim;
  parallel_equal_tasks(H, [&](int h) {
    double sum = 0;
    for (size_t b = 0; b < static_cast<size_t>(shape.B); ++b)
      for (int i = 0; i < T; ++i) {
        const size_t row = ((b * T + i) * H + h) * D;
        const double delta = simd::dot(dout + row, out + row, D);  // Δ = Σⱼ P·dP
        sum += static_cast<double>(std::exp(shape.sinks[h] - lse[(b * H + h) * T + i])) * delta;
      }
    dsinks[h] -= static_cast<float>(sum);  // P = softmax(S): dsink = P_sink·(0 − Δ)
  });
}
