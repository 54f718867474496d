#include "diagnostics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/attention/operands.hpp"
#include "layers/attention/scores.hpp"
#include "layers/kernels/simd.hpp"

using simd::all;
using simd::Half;
using simd::Halves;
using simd::load;
using simd::sweep;
using simd::Vec;

// ---- sums ------------------------------------------------------------------------------------------------

namespace {

// Adds up f(begin, end) over fixed chunks of [0, n), in order.
template <class Sums, class F>
Sums sum_chunks(size_t n, F f) {
  constexpr size_t kChunk = 1 << 13;
  const int chunks = static_cast<int>((n + kChunk - 1) / kChunk);
  std::vector<Sums> parts(chunks);
  parallel_each(chunks, kChunk, [&](size_t i) { parts[i] = f(i * kChunk, std::min(n, (i + 1) * kChunk)); });
  Sums sums;
  for (const Sums& part : parts) sums += part;
  return sums;
}

struct Powers {  // sum, Σx² and max |x| of elements; or Σd² and Σd⁴ of their distances d from the mean
  double first = 0, second = 0, fourth = 0, top = 0;

  void operator+=(const Powers& o) {
    first += o.first;
    second += o.second;
    fourth += o.fourth;
    top = std::max(top, o.top);
  }
};

// x(i, lanes, fill) returns the elements from i on, and `fill` beyond the last.
template <class Load>
Powers powers_of(size_t n, Load x) {
  return sum_chunks<Powers>(n, [&](size_t begin, size_t end) {
    Half first = {}, second = {};
    Vec top = {};
    sweep(static_cast<int>(end - begin), [&](int i, int lanes) {
      const Vec v = x(begin + i, lanes, 0.f);
      const Halves h = simd::widen(v);
      first += h.low + h.high;
      second += h.low * h.low + h.high * h.high;
      top = simd::max(v < 0.f ? -v : v, top);
    });
    return Powers{simd::sum(first), simd::sum(second), 0, static_cast<double>(simd::max(top))};
  });
}

template <class Load>
Powers central_powers_of(size_t n, float mean, Load x) {
  const double center = static_cast<double>(mean);
  return sum_chunks<Powers>(n, [&](size_t begin, size_t end) {
    Half second = {}, fourth = {};
    sweep(static_cast<int>(end - begin), [&](int i, int lanes) {
      const Halves h = simd::widen(x(begin + i, lanes, mean));
      for (const Half d : {h.low - center, h.high - center}) {
        second += d * d;
        fourth += d * d * d * d;
      }
    });
    return Powers{0, simd::sum(second), simd::sum(fourth), 0};
  });
}

template <class Load>
Distribution distribution(size_t n, Load x) {
  const double count = static_cast<double>(n);
  const Powers raw = powers_of(n, x), central = central_powers_of(n, static_cast<float>(raw.first / count), x);
  const double kurtosis = central.fourth / (central.second * central.second) * count - 3;
  return {std::sqrt(raw.second / count), std::isnan(raw.second) ? raw.second : raw.top, kurtosis};
}

template <class Load>
double norm_of(size_t n, Load x) {
  return std::sqrt(powers_of(n, x).second);
}

auto elements(const float* x) {
  return [x](size_t i, int lanes, float fill) { return load(x + i, lanes, fill); };
}

// a − scale·b, or a − scale·b − c
auto difference(const float* a, float scale, const float* b, const float* c = nullptr) {
  return [=](size_t i, int lanes, float fill) {
    const Vec d = load(a + i, lanes, fill) - scale * load(b + i, lanes);
    return c ? d - load(c + i, lanes) : d;
  };
}

// λ ⊙ f
auto gained(const float* f, const Gain& gain, size_t C) {
  return [=](size_t i, int lanes, float fill) {
    Vec v = load(f + i, lanes, fill);
    for (int lane = 0; lane < lanes; ++lane) v[lane] *= gain.weight[gain.single ? 0 : (i + lane) % C];
    return v;
  };
}

void add_row(Statistics& rows, int layer, const std::string& part, const std::string& what, double value) {
  if (!std::isnan(value)) rows.push_back({layer, part, what, value});
}

}  // namespace

Distribution distribution_of(const float* x, size_t n) { return distribution(n, elements(x)); }

// ---- attention -------------------------------------------------------------------------------------------

namespace {

struct HeadSums {
  double entropy = 0;  // sum over the rows with two or more keys
  int64_t rows = 0;    // the number of these rows
  float top = -INFINITY;
};

// A tile of queries and a tile of keys.
struct Tile {
  const SeenKeys& seen;
  int queries, k0, keys;
};

// Adds W queries from query i of the tile on, given their products with the keys and their lse.
void add_columns(HeadSums& sums, float* products, const float* lse, const AttentionShape& shape, int h,
                 const Tile& tile, int i) {
  if (shape.cap > 0) cap_columns(products, kTile, nullptr, shape, tile.keys);
  const int lanes = std::min(simd::W, tile.queries - i);
  const Scores scores(shape, h, tile.seen, i, tile.k0, tile.keys);
  Vec top = all(-INFINITY), entropy = {};  // entropy −Σ P log P, P = exp(S − lse)
  scores.each(products, kTile, Vec{}, [&](int, Vec s) { top = simd::max(s, top); });
  scores.each(products, kTile, load(lse, lanes), [&](int, Vec s) {
    const Vec log_p = simd::max(all(-104.f), s);  // below that, P is 0 in float
    entropy -= simd::exp(log_p) * log_p;
  });
  for (int lane = 0; lane < lanes; ++lane) {
    const int t = tile.seen.count(i + lane);
    sums.top = std::max(sums.top, top[lane]);
    if (t > 1) sums.entropy += static_cast<double>(entropy[lane]) / std::log(t);
  }
}

// Sums over head h of sequence b. The rows are those of all sequences, lse (T).
HeadSums head_sums(const QkvRows<const float>& x, const float* lse, const AttentionShape& shape, int b, int h) {
  alignas(64) float s[kTile * kTile] = {};
  const int T = shape.T, D = shape.head_dim;
  const float* q = x.q + size_t(b) * T * x.q_stride + h * D;
  const float* k = x.k + size_t(b) * shape.keys() * x.kv_stride + h / (shape.n_head / shape.kv_heads) * D;
  std::vector<float> room(Operands::room(shape, 2, 0));
  HeadSums sums;
  for (int q0 = 0; q0 < T; q0 += kTile) {
    const SeenKeys seen(shape, b, q0);
    const int queries = std::min(kTile, T - q0);
    for (int i = 0; i < queries; ++i) sums.rows += seen.count(i) > 1;
    for (int k0 = seen.first_tile(); k0 < seen.end(); k0 += kTile) {
      const int keys = std::min(kTile, shape.keys() - k0);
      Operands of(shape, room.data());
      of.multiply({s, kTile}, of.left({k + k0 * x.kv_stride, x.kv_stride, 1}, keys, D),
                  of.right({q + q0 * x.q_stride, 1, x.q_stride}, D, queries), keys, queries, D, false);
      for (int i = 0; i < queries; i += simd::W)
        add_columns(sums, s + i, lse + q0 + i, shape, h, {seen, queries, k0, keys}, i);
    }
  }
  return sums;
}

}  // namespace

AttentionStatistics attention_statistics(const QkvRows<const float>& x, const float* lse, const AttentionShape& shape) {
  const int H = shape.n_head;
  std::vector<HeadSums> heads(static_cast<size_t>(shape.B) * H);
  parallel_tasks(shape.B * H, [&](int task) {
    heads[task] = head_sums(x, lse + static_cast<size_t>(task) * shape.T, shape, task / H, task % H);
  });
  HeadSums total;
  for (const HeadSums& head : heads) {
    total.entropy += head.entropy;
    total.rows += head.rows;
    total.top = std::max(total.top, head.top);
  }
  return {total.entropy / static_cast<double>(total.rows), static_cast<double>(total.top)};
}

// ---- during the pass -------------------------------------------------------------------------------------

void PassStatistics::add(int layer, const std::string& part, const char* what, double value) {
  add_row(rows, layer, stack_ + part, what, value);
}

void PassStatistics::norm(int layer, const std::string& name, const Distribution& before, const Distribution& after) {
  add(layer, name, "rms_before", before.rms);
  add(layer, name, "max_before", before.max);
  add(layer, name, "kurtosis_before", before.kurtosis);
  add(layer, name, "rms_after", after.rms);
  add(layer, name, "max_after", after.max);
  add(layer, name, "kurtosis_after", after.kurtosis);
}

// y = norm_sum(s), s = skip·ω ⊙ base + norm_out(f) or + λ ⊙ f, f = W_out·norm_inner(h), h = F(in_scale·norm_in(x)).
// base is x, except in the second branch of a parallel block, which is added to the first branch's output. A bypass
// adds the block's input to s.
void PassStatistics::branch(const BranchView& v, const BranchSaved& saved, const Branch& p) {
  const size_t n = static_cast<size_t>(v.N) * config().channels;
  const float* s = saved.before_sum();
  const bool mixes = p.streams.mixes();
  const Distribution in = distribution_of(saved.streams.h_or(v.x), n);
  std::vector<float> on_skip_path(p.skip_gain.present() ? n : 0);  // ω ⊙ base
  const float* skipped = gain_forward(on_skip_path.data(), v.base, p.skip_gain, v.N, config().channels);
  Distribution added;
  if (p.gain.present()) added = distribution(n, gained(saved.f, p.gain, n / v.N));
  else if (mixes) added = distribution_of(saved.f, n);
  else added = distribution(n, difference(s, p.streams.skip, skipped, v.bypass));
  const double written = added.rms / static_cast<double>(p.streams.first_write);
  if (p.norm_in.present()) {
    Distribution after = distribution_of(saved.u, n);
    after.rms /= static_cast<double>(p.in_scale);
    after.max /= static_cast<double>(p.in_scale);
    norm(v.layer, v.name + ".norm_in", in, after);
  }
  if (p.norm_inner.present()) {
    const size_t inner = static_cast<size_t>(v.rows) * v.width;
    norm(v.layer, v.name + ".norm_inner", distribution_of(v.h, inner), distribution_of(saved.m, inner));
  }
  if (p.norm_out.present()) norm(v.layer, v.name + ".norm_out", distribution_of(saved.f, n), added);
  if (p.norm_sum.present()) norm(v.layer, v.name + ".norm_sum", distribution_of(s, n), distribution_of(saved.y, n));
  const Distribution on_path = p.skip_gain.present() ? distribution_of(skipped, n) : in;
  const double past = static_cast<double>(*config().skip_scale) * on_path.rms;
  add(v.layer, v.name, "branch_ratio", past > 0 ? written / past : NAN);
  if (mixes) mixing(v, saved, p);
  if (p.streams.rule == StreamRule::siamese)  // h = x[0] + norm(x[1])
    norm(v.layer, v.name + ".streams.second_norm", distribution_of(v.x + n, n),
         distribution(n, difference(saved.streams.h, 1, v.x)));
}

// The mean over tokens of the largest Σ |carry| into a stream (a bound on forward's growth) and out of one (on
// backward's).
void PassStatistics::mixing(const BranchView& v, const BranchSaved& saved, const Branch& p) {
  const int S = p.streams.count, N = v.N;
  norms_of_streams(v.layer, v.name + ".streams", v.x, saved.streams, p.streams, N);
  if (!has_carry(p.streams.rule)) return;
  std::vector<float> coefficients(static_cast<size_t>(p.streams.coefficients()) * N);
  stream_coefficients(coefficients.data(), saved.streams, p.streams, N);
  double into = 0, out_of = 0;
  for (int n = 0; n < N; ++n) {
    std::vector<double> to(S), from(S);
    for (int s = 0; s < S; ++s)
      for (int t = 0; t < S; ++t) {
        const double size = std::fabs(coefficients[(static_cast<size_t>(s) * (S + 2) + 1 + t) * N + n]);
        to[t] += size;
        from[s] += size;
      }
    into += *std::max_element(to.begin(), to.end()) / N;
    out_of += *std::max_element(from.begin(), from.end()) / N;
  }
  add(v.layer, v.name + ".streams", "carry_in", into);
  add(v.layer, v.name + ".streams", "carry_out", out_of);
  if (!p.streams.norm.present()) return;
  std::vector<float> after(static_cast<size_t>(S) * N * config().channels);  // again: it was not kept
  norm_forward(after.data(), saved.streams.norm, v.x, p.streams.norm, S * N, config().channels, true);
  norm(v.layer, v.name + ".streams.norm", distribution_of(v.x, after.size()),
       distribution_of(after.data(), after.size()));
}

// The norms of the gated residual.
void PassStatistics::norms_of_streams(int layer, const std::string& name, const float* x, const StreamsSaved& saved,
                                      const Streams& p, int N) {
  const size_t n = static_cast<size_t>(N) * config().channels;
  std::vector<float> after(n);  // again: it was not kept
  for (size_t s = 0; s < p.norms.size(); ++s) {
    norm_forward(after.data(), saved.norms[s], x + s * n, p.norms[s], N, config().channels, true);
    norm(layer, name + "." + std::to_string(s) + ".stream_norm", distribution_of(x + s * n, n),
         distribution_of(after.data(), n));
  }
}

void PassStatistics::stream(int layer, const std::string& part, const float* y, const float* dy, size_t n) {
  const Distribution stream = distribution_of(y, n);
  add(layer, part, "rms", stream.rms);
  add(layer, part, "max", stream.max);
  add(layer, part, "kurtosis", stream.kurtosis);
  add(layer, part, "grad_norm", norm_of(n, elements(dy)));
}

// Computes the norm again, because the saved queries and keys have been through RoPE.
void PassStatistics::qk_norm(int layer, const std::string& name, const InPlaceNormSaved& saved, const Norm& p,
                             int heads, int N) {
  const auto [count, width] = qk_rows(config(), heads);
  std::vector<float> after(static_cast<size_t>(N) * count * width);
  norm_forward(after.data(), saved, saved.x, p, N * count, width, false);
  norm(layer, name, distribution_of(saved.x, after.size()), distribution_of(after.data(), after.size()));
}

void PassStatistics::router(int layer, const RouterSaved& saved, int N) {
  const int E = config().experts;
  const double even = double(N) * config().experts_per_token / E;
  double entropy = 0;
  for (size_t i = 0; i < size_t(N) * E; ++i) {
    const double s = static_cast<double>(saved.scores[i]);
    if (s > 0) entropy -= s * std::log(s);
  }
  add(layer, "ffn.router", "entropy", E > 1 ? entropy / (N * std::log(E)) : NAN);
  const std::vector<int> load = router_load(saved, config(), N);
  for (int i = 0; i < E; ++i) add(layer, "ffn.expert." + std::to_string(i), "load", load[i] / even);
  add(layer, "ffn.router", "max_load", *std::max_element(load.begin(), load.end()) / even);
  add(layer, "ffn.router", "dropped", 0);
}

void PassStatistics::attention(int layer, const std::string& name, const AttentionBranchSaved& saved,
                               const AttentionBranch& p, const QkvRows<const float>& x, const AttentionShape& shape) {
  const int N = shape.B * shape.T, M = shape.B * shape.keys();
  const QkNormSaved& qk = saved.qk_norm;
  if (qk.q.x) {
    qk_norm(layer, name + ".q_norm", qk.q, p.qk_norm.q, shape.n_head, N);
    qk_norm(layer, name + ".k_norm", qk.k, p.qk_norm.k, shape.kv_heads, M);
    if (qk.v.x) qk_norm(layer, name + ".v_norm", qk.v, p.qk_norm.v, shape.kv_heads, M);
  }
  const AttentionStatistics statistics = attention_statistics(x, saved.lse, shape);
  add(layer, name, "entropy", statistics.entropy);
  add(layer, name, "max_logit", statistics.max_logit);
}

void PassStatistics::block(int number, const float* x, const BlockSaved& saved, const float* dy, const Batch& batch) {
  enter_stack(number < model_.config.encoder_layers);
  const Config& config = this->config();
  const int layer = layer_in_stack(model_.config, number);
  const StackTensors& stack = encodes_ ? model_.p.encoder : model_.p;
  const Block& p = stack.blocks[layer];
  const size_t n = static_cast<size_t>(batch.B) * batch.T * config.channels;
  const int N = batch.B * batch.T, inner = AttentionBranch::inner_width(config);
  const float* middle = saved.before_ffn();
  if (saved.mixed) x = saved.mixed;
  branch({layer, "attention", x, x, saved.attention.inner(), inner, N, N}, saved.attention, p.attention);
  const Positions positions{.B = batch.B, .T = batch.T, .begins = batch.begins};
  const RelativeBuckets& buckets = encodes_ ? model_.encoder_buckets : model_.buckets;
  std::vector<float> relative(RelativeBuckets::size(config) * config.n_head);
  if (stack.relative) buckets.fill(relative.data(), stack.relative, config.n_head, 0, batch.T);
  const PositionBiases biases{model_.slopes.get(), buckets.bias(relative.data())};
  const AttentionShape shape = attention_shape(config, layer, biases, positions);
  const float* qkv = saved.attention.qkv;
  attention(layer, "attention", saved.attention, p.attention, parts_of(qkv, shape), shape);
  if (config.crosses()) {
    const float* between = saved.attention.y;
    const EncoderInput& source = batch.encoder;
    branch({layer, "cross", between, between, saved.cross.inner(), inner, N, N}, saved.cross, p.cross);
    attention(layer, "cross", saved.cross, p.cross, rows_of(saved.cross, config),
              cross_attention_shape(config, batch.B, batch.T, {.T = source.T, .from = source.from, .to = source.to}));
  }
  const float* ffn_x = config.block == BlockForm::sequential ? middle : x;
  branch({layer, "ffn", ffn_x, middle, saved.ffn.active, config.hidden, N, FeedForward::inner_rows(config, N),
          p.ffn.bypass ? x : nullptr},
         saved.ffn, p.ffn);
  if (config.experts > 0) router(layer, saved.ffn.router, N);
  const int S = stream_count(config);
  stream(layer, "stream", saved.ffn.y, dy, S * n);
  for (int s = 0; s < S && S > 1; ++s)
    stream(layer, "stream." + std::to_string(s), saved.ffn.y + s * n, dy + s * n, n);
}

void PassStatistics::outside(const StackActivations& a, const float* y, const Batch& batch, bool encoder) {
  enter_stack(encoder);
  const StackTensors& p = encoder ? model_.p.encoder : model_.p;
  const int N = batch.B * batch.T;
  const size_t n = static_cast<size_t>(N) * config().channels;
  if (p.embedding_norm.present())
    norm(kOutside, "embedding.norm", distribution_of(a.embedded, n), distribution_of(a.x, n));
  if (p.first_norm.present())
    norm(kOutside, "streams.first_norm", distribution_of(a.x, n), distribution_of(a.streams, n));
  if (p.second_norm.present())
    norm(kOutside, "streams.second_norm", distribution_of(y + n, n), distribution(n, difference(a.end.sum, 1, y)));
  norms_of_streams(kOutside, "streams", y, a.end.read, p.read, N);
  if (!p.final_norm.present()) return;
  const Distribution after = a.end.rule == StreamRule::dual ? distribution(n, difference(a.end.h, 1, y))
                                                            : distribution_of(a.end.h, n);
  norm(kOutside, "final_norm", distribution_of(before_final_norm(a.end, y, N, config().channels), n), after);
}

// ---- tensors ---------------------------------------------------------------------------------------------

namespace {

void add_gain_statistics(Statistics& rows, int layer, const TensorSpec& spec, const float* w, float offset) {
  const size_t C = spec.size();
  std::vector<float> gain(w, w + C);
  for (float& x : gain) x += offset;
  const Powers powers = powers_of(C, elements(gain.data()));
  const double count = static_cast<double>(C);
  const auto [min, max] = std::minmax_element(gain.begin(), gain.end());
  add_row(rows, layer, spec.group(), "gain_mean", powers.first / count);
  add_row(rows, layer, spec.group(), "gain_min", static_cast<double>(*min));
  add_row(rows, layer, spec.group(), "gain_max", static_cast<double>(*max));
  add_row(rows, layer, spec.group(), "gain_rms", std::sqrt(powers.second / count));
}

}  // namespace

void add_tensor_statistics(Statistics& rows, const Model& model) {
  for (const TensorSpec& spec : model.table) {
    if (!spec.trained) continue;
    const int layer = layer_in_stack(model.config, spec.layer);
    const double norm = norm_of(spec.size(), elements(model.gradients.get() + spec.gradient));
    add_row(rows, layer, spec.part, "grad_norm", norm);
    const float* w = model.weights.get() + spec.offset;
    if (spec.role == Role::norm_gain) add_gain_statistics(rows, layer, spec, w, model.config.norm_unit_offset ? 1 : 0);
    if (spec.role == Role::gain) add_gain_statistics(rows, layer, spec, w, 0);
    if (spec.role == Role::norm_scalar || spec.role == Role::mix)
      add_row(rows, layer, spec.group(), spec.leaf(), static_cast<double>(*w));
  }
}

void add_update_ratios(Statistics& rows, const Model& model, const float* before) {
  for (const TensorSpec& spec : model.table) {
    if (!spec.trained) continue;
    const float *was = before + spec.offset, *is = model.weights.get() + spec.offset;
    const double size = norm_of(spec.size(), elements(was));
    const double ratio = size > 0 ? norm_of(spec.size(), difference(is, 1, was)) / size : NAN;
    add_row(rows, layer_in_stack(model.config, spec.layer), spec.part, "update_ratio", ratio);
  }
}

double model_update(const float* h, const float* h0, const int* targets, int N, int C) {
  std::vector<double> lengths(N);
  parallel_each(N, C, [&](size_t n) {
    const size_t row = n * C;
    double squares = 0;
    for (size_t i = row; i < row + C; ++i) squares += std::pow(static_cast<double>(h[i]) - h0[i], 2);
    lengths[n] = targets[n] == kIgnore ? 0 : std::sqrt(squares);
  });
  double sum = 0;
  int counted = 0;
  for (int n = 0; n < N; ++n) {
    sum += lengths[n];
    counted += targets[n] != kIgnore;
  }
  return sum / counted;
}
