#include "streams.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

using simd::all;
using simd::load;
using simd::multiply_add;
using simd::store;
using simd::sweep;
using simd::Vec;

// ---- declarations ----------------------------------------------------------------------------------------------

namespace {

// What DeepSeek-V4's class in transformers adds so that no sum is 0; the paper adds nothing.
constexpr float kSinkhornEps = 1e-6f;
constexpr int kSinkhornRounds = 20;  // t_max of mHC, table 5

// Both papers start their factors here: hyper-connections appendix J, mHC table 5.
constexpr float kFirstScale = .01f;

StreamRule rule_of(const Config& config) { return placement_row(config.placement).streams; }

size_t plane(int N, int C) { return static_cast<size_t>(N) * C; }

}  // namespace

int stream_count(const Config& config) {
  const StreamRule rule = rule_of(config);
  return rule == StreamRule::single ? 1 : rule == StreamRule::dual ? 2 : config.streams;
}

double multiply_adds_of_mixing(const Config& config) {
  const double S = stream_count(config), C = config.channels;
  return rule_of(config) == StreamRule::single || rule_of(config) == StreamRule::dual ? 0 : S * (S + 2) * C;
}

double multiply_adds_of_streams(const Config& config) {
  const double mixing = multiply_adds_of_mixing(config);
  switch (rule_of(config)) {
    case StreamRule::hyper: return 2 * mixing;
    case StreamRule::mhc: return (1 + stream_count(config)) * mixing;
    default: return mixing;
  }
}

// Branch k starts as Pre-LN: it reads stream k mod S and adds to every stream (eq. 14 of hyper-connections). Constants
// have no weight decay, as in the paper; they are vectors here. The paper also scales the output matrices by a factor
// of √S. Which way could not be verified, so they start as those of Pre-LN here.
//
// The paper of mHC does not say where weight and bias start. As in transformers' DeepseekV4HyperConnection they are
// drawn from N(0, .02²), and 0. Then a branch reads ½·Σₛ x[s] and carry is the mean of the streams: as long as these
// are equal, it is Pre-LN.
Streams declare_streams(Layout& layout, const Config& config, const std::string& name, int branch) {
  Streams p;
  p.rule = rule_of(config), p.count = stream_count(config);
  if (!p.mixes()) return p;
  const int S = p.count, C = config.channels;
  const std::string prefix = name + ".streams";
  if (p.rule == StreamRule::mhc) {
    p.eps = config.norm_eps;
    p.weight = layout.take(prefix + ".weight", Role::streams, {p.coefficients(), S * C}, {0, .02f});
    p.bias = layout.take(prefix + ".bias", Role::streams, {p.coefficients()});
    p.scale = layout.take(prefix + ".scale", Role::streams, {3}, {kFirstScale, 0});
    return p;
  }
  const size_t first = static_cast<size_t>(branch % S), rows = static_cast<size_t>(S);
  p.read = layout.take(prefix + ".read", Role::streams, {S}, {0, 0, rows, first});
  p.carry = layout.take(prefix + ".carry", Role::streams, {S * S}, {0, 0, rows + 1, 0});
  p.write = layout.take(prefix + ".write", Role::streams, {S}, {1, 0});
  if (p.rule == StreamRule::hyper_static) return p;
  p.norm = declare_norm(layout, config, prefix + ".norm", C);
  p.weight = layout.take(prefix + ".weight", Role::streams, {S + 2, C});
  p.scale = layout.take(prefix + ".scale", Role::streams, {2}, {kFirstScale, 0});
  return p;
}

StreamsSaved declare_streams_saved(Layout& layout, const Config& config, const std::string& name, int N) {
  Streams p;
  p.rule = rule_of(config), p.count = stream_count(config);
  StreamsSaved saved;
  if (!p.mixes()) return saved;
  const std::string prefix = name + ".streams";
  saved.h = layout.take(prefix + ".h", Role::streams, {N, config.channels});
  if (p.rule == StreamRule::hyper_static) return saved;
  saved.z = layout.take(prefix + ".z", Role::streams, {p.coefficients(), N});
  if (p.rule == StreamRule::mhc) saved.rstd = layout.take(prefix + ".rstd", Role::streams, {N});
  else saved.norm = declare_norm_saved(layout, config, prefix + ".norm", p.count * N, config.channels);
  return saved;
}

StreamsScratch declare_streams_scratch(Layout& layout, const Config& config, int N, bool backward) {
  Streams p;
  p.rule = rule_of(config), p.count = stream_count(config);
  StreamsScratch scratch;
  if (!p.mixes()) return scratch;
  scratch.coefficients = layout.take("scratch.coefficients", Role::scratch, {p.coefficients(), N});
  if (backward) scratch.d = layout.take("scratch.coefficients.gradient", Role::scratch, {p.coefficients(), N});
  if (p.rule == StreamRule::hyper)
    scratch.wide = layout.take("scratch.streams", Role::scratch, {p.count * N, config.channels});
  return scratch;
}

void scaled_add(float* out, float scale, const float* a, const float* b, int N, int C) {
  parallel_for(N, 1, C, [&](int begin, int end) {
    for (size_t i = static_cast<size_t>(begin) * C; i < static_cast<size_t>(end) * C; ++i)
      out[i] = scale * a[i] + b[i];
  });
}

// ---- mixing --------------------------------------------------------------------------------------------------

namespace {

// f(count) with S as a constant, so that the loops over streams unroll and their sums stay in registers.
template <int most = kMostStreams, class F>
void with_count(int S, F f) {
  if constexpr (most > 1)
    if (S < most) return with_count<most - 1>(S, f);
  f(std::integral_constant<int, most>());
}

// The coefficients of row n, of all streams.
template <int S>
struct RowCoefficients {
  float read[S], carry[S][S], write[S];

  RowCoefficients(const float* coefficients, int n, int N, float skip) {
    for (int s = 0; s < S; ++s) {
      const float* of = coefficients + static_cast<size_t>(s) * (S + 2) * N + n;
      read[s] = of[0], write[s] = of[static_cast<size_t>(S + 1) * N];
      for (int t = 0; t < S; ++t) carry[s][t] = skip * of[static_cast<size_t>(1 + t) * N];
    }
  }
};

size_t mixing_work(int S, int C) { return static_cast<size_t>(S) * (S + 2) * C / 2; }

void read_streams(float* h, const float* coefficients, const float* x, int S, int N, int C) {
  with_count(S, [&](auto count) {
    parallel_for(N, 1, plane(S, C), [&](int begin, int end) {
      for (int n = begin; n < end; ++n) {
        const RowCoefficients<count> k(coefficients, n, N, 1);
        const float* row = x + plane(n, C);
        sweep(C, [&](int c, int lanes) {
          Vec sum = {};
          for (int s = 0; s < count; ++s)
            sum = multiply_add(sum, all(k.read[s]), load(row + s * plane(N, C) + c, lanes));
          store(h + plane(n, C) + c, sum, lanes);
        });
      }
    });
  });
}

}  // namespace

void streams_write(float* y, const StreamsScratch& scratch, float skip, const float* x, const float* f,
                   const Streams& p, int N, int C) {
  with_count(p.count, [&](auto count) {
    constexpr int S = count;
    parallel_for(N, 1, mixing_work(S, C), [&](int begin, int end) {
      for (int n = begin; n < end; ++n) {
        const RowCoefficients<S> k(scratch.coefficients, n, N, skip);
        sweep(C, [&](int c, int lanes) {
          const size_t at = plane(n, C) + c;
          const Vec added = load(f + at, lanes);
          Vec in[S];
          for (int s = 0; s < S; ++s) in[s] = load(x + s * plane(N, C) + at, lanes);
          for (int t = 0; t < S; ++t) {
            Vec sum = k.write[t] * added;
            for (int s = 0; s < S; ++s) sum = multiply_add(sum, all(k.carry[s][t]), in[s]);
            store(y + t * plane(N, C) + at, sum, lanes);
          }
        });
      }
    });
  });
}

void streams_write_backward(float* d, float* df, const StreamsScratch& scratch, float skip, const float* x,
                            const float* f, const StreamsSaved& saved, const Streams& p, int N, int C) {
  stream_coefficients(scratch.coefficients, saved, p, N);
  with_count(p.count, [&](auto count) {
    constexpr int S = count;
    parallel_for(N, 1, 2 * mixing_work(S, C), [&](int begin, int end) {
      for (int n = begin; n < end; ++n) {
        const RowCoefficients<S> k(scratch.coefficients, n, N, skip);
        Vec dcarry[S][S] = {}, dwrite[S] = {};
        sweep(C, [&](int c, int lanes) {
          const size_t at = plane(n, C) + c;
          const Vec added = load(f + at, lanes);
          Vec dy[S], sum = {};
          for (int t = 0; t < S; ++t) {
            dy[t] = load(d + t * plane(N, C) + at, lanes);
            sum = multiply_add(sum, all(k.write[t]), dy[t]);   // y[t] = ... + write[t]·f
            dwrite[t] = multiply_add(dwrite[t], dy[t], added);  // y[t] = ... + write[t]·f
          }
          store(df + at, sum, lanes);
          for (int s = 0; s < S; ++s) {  // y[t] = skip·Σₛ carry[s,t]·x[s] + ...
            const Vec in = load(x + s * plane(N, C) + at, lanes);
            Vec dx = {};
            for (int t = 0; t < S; ++t) {
              dx = multiply_add(dx, all(k.carry[s][t]), dy[t]);
              dcarry[s][t] = multiply_add(dcarry[s][t], dy[t], in);
            }
            store(d + s * plane(N, C) + at, dx, lanes);
          }
        });
        for (int s = 0; s < S; ++s) {
          float* of = scratch.d + static_cast<size_t>(s) * (S + 2) * N + n;
          for (int t = 0; t < S; ++t)
            of[static_cast<size_t>(1 + t) * N] = skip * static_cast<float>(simd::sum(dcarry[s][t]));
          of[static_cast<size_t>(S + 1) * N] = static_cast<float>(simd::sum(dwrite[s]));
        }
      }
    });
  });
}

namespace {

// h = Σₛ read[s]·x[s]
void read_streams_backward(float* d, float* dcoefficients, const float* coefficients, const float* dh, const float* x,
                           int S, int N, int C) {
  with_count(S, [&](auto count) {
    parallel_for(N, 1, 2 * plane(S, C), [&](int begin, int end) {
      for (int n = begin; n < end; ++n) {
        const RowCoefficients<count> k(coefficients, n, N, 1);
        Vec dread[count] = {};
        sweep(C, [&](int c, int lanes) {
          const size_t at = plane(n, C) + c;
          const Vec dy = load(dh + at, lanes);
          for (int s = 0; s < count; ++s) {
            float* dx = d + s * plane(N, C) + at;
            dread[s] = multiply_add(dread[s], dy, load(x + s * plane(N, C) + at, lanes));
            store(dx, multiply_add(load(dx, lanes), all(k.read[s]), dy), lanes);
          }
        });
        for (int s = 0; s < count; ++s)
          dcoefficients[static_cast<size_t>(s) * (count + 2) * N + n] = static_cast<float>(simd::sum(dread[s]));
      }
    });
  });
}

// ---- the coefficients of hyper-connections -----------------------------------------------------------------------

// The constant behind coefficient j of stream s.
float* constant(const Streams& p, int s, int j) {
  return j == 0 ? p.read + s : j <= p.count ? p.carry + s * p.count + j - 1 : p.write + s;
}

// f(k, s, j) for coefficient k = (s, j), on one thread each.
template <class F>
void each_coefficient(int S, int N, F f) {
  parallel_for(S * (S + 2), 1, 8 * static_cast<size_t>(N), [&](int begin, int end) {
    for (int k = begin; k < end; ++k) f(k, k / (S + 2), k % (S + 2));
  });
}

void hyper_coefficients(float* coefficients, const float* z, const Streams& p, int N) {
  each_coefficient(p.count, N, [&](int k, int s, int j) {
    float* out = coefficients + plane(k, N);
    const float still = *constant(p, s, j), scale = p.scale ? p.scale[j > p.count] : 0;
    if (!z) return void(std::fill_n(out, N, still));
    sweep(N, [&](int n, int lanes) {
      store(out + n, multiply_add(all(still), all(scale), simd::tanh(load(z + plane(k, N) + n, lanes))), lanes);
    });
  });
}

double sum_of(const float* x, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

// d holds the gradients of the coefficients and then those of z.
void hyper_coefficients_backward(float* d, const Streams& g, const float* z, const Streams& p, int N) {
  const int K = p.coefficients();
  std::vector<double> dscale(K);
  each_coefficient(p.count, N, [&](int k, int s, int j) {
    float* dk = d + plane(k, N);
    *constant(g, s, j) += static_cast<float>(sum_of(dk, N));
    if (!z) return;
    const float scale = p.scale[j > p.count];
    simd::Half sums = {};
    sweep(N, [&](int n, int lanes) {
      const Vec t = simd::tanh(load(z + plane(k, N) + n, lanes)), dy = load(dk + n, lanes);
      const simd::Halves products = simd::widen(dy * t);
      sums += products.low + products.high;
      store(dk + n, scale * dy * (1.f - t * t), lanes);
    });
    dscale[k] = simd::sum(sums);
  });
  if (!z) return;
  double both[2] = {};
  for (int k = 0; k < K; ++k) both[k % (p.count + 2) > p.count] += dscale[k];
  for (int i = 0; i < 2; ++i) g.scale[i] += static_cast<float>(both[i]);
}

// ---- the coefficients of mHC -------------------------------------------------------------------------------------

// A matrix (S,S) for each lane. Each round makes the columns into and then the rows out of a stream sum to 1; the last
// one, which is what the paper's T_r does for its transposed matrix, is that of the columns here.
template <int S>
struct Sinkhorn {
  struct Round {
    Vec by_row[S][S], by_column[S][S];  // after each half
    Vec row[S], column[S];              // what they were divided by
  };
  Vec first[S][S];  // the softmax of each row
  Round rounds[kSinkhornRounds];

  const Vec (&out() const)[S][S] { return rounds[kSinkhornRounds - 1].by_column; }

  void forward(const Vec (&a)[S][S]) {
    for (int s = 0; s < S; ++s) {
      Vec top = a[s][0], sum = {};
      for (int t = 1; t < S; ++t) top = simd::max(top, a[s][t]);
      for (int t = 0; t < S; ++t) sum += first[s][t] = simd::exp(a[s][t] - top);
      for (int t = 0; t < S; ++t) first[s][t] = first[s][t] / sum;
    }
    for (int i = 0; i < kSinkhornRounds; ++i) {
      Round& r = rounds[i];
      for (int s = 0; s < S; ++s) {  // of the first round softmax has done it
        r.row[s] = all(i == 0 ? 1.f : kSinkhornEps);
        for (int t = 0; t < S && i > 0; ++t) r.row[s] += rounds[i - 1].by_column[s][t];
        for (int t = 0; t < S; ++t)
          r.by_row[s][t] = i == 0 ? first[s][t] + kSinkhornEps : rounds[i - 1].by_column[s][t] / r.row[s];
      }
      for (int t = 0; t < S; ++t) {
        r.column[t] = all(kSinkhornEps);
        for (int s = 0; s < S; ++s) r.column[t] += r.by_row[s][t];
        for (int s = 0; s < S; ++s) r.by_column[s][t] = r.by_row[s][t] / r.column[t];
      }
    }
  }

  // d holds the gradient of out() and then that of a. y = x/Σx has dx = (dy − Σ dy·y)/Σx.
  void backward(Vec (&d)[S][S]) const {
    for (int i = kSinkhornRounds - 1; i >= 0; --i) {
      const Round& r = rounds[i];
      for (int t = 0; t < S; ++t) {
        Vec sum = {};
        for (int s = 0; s < S; ++s) sum += d[s][t] * r.by_column[s][t];
        for (int s = 0; s < S; ++s) d[s][t] = (d[s][t] - sum) / r.column[t];
      }
      for (int s = 0; s < S && i > 0; ++s) {
        Vec sum = {};
        for (int t = 0; t < S; ++t) sum += d[s][t] * r.by_row[s][t];
        for (int t = 0; t < S; ++t) d[s][t] = (d[s][t] - sum) / r.row[s];
      }
    }
    for (int s = 0; s < S; ++s) {
      Vec sum = {};
      for (int t = 0; t < S; ++t) sum += d[s][t] * first[s][t];
      for (int t = 0; t < S; ++t) d[s][t] = (d[s][t] - sum) * first[s][t];
    }
  }
};

// The rows of z of W tokens from n on, and what follows from them. Of stream s read is row s of z, write row S + s, and
// carry to stream t row 2S + s·S + t.
template <int S>
struct Manifold {
  Vec z[S * (S + 2)], read[S], write[S];  // σ
  Sinkhorn<S> sinkhorn;

  static int kind(int k) { return k < S ? 0 : k < 2 * S ? 1 : 2; }  // of the scale

  Manifold(const float* rows, const Streams& p, int n, int N, int lanes) {
    Vec a[S * (S + 2)], carry[S][S];
    for (int k = 0; k < S * (S + 2); ++k) {
      z[k] = load(rows + plane(k, N) + n, lanes);
      a[k] = p.scale[kind(k)] * z[k] + p.bias[k];
    }
    for (int s = 0; s < S; ++s) {
      read[s] = simd::sigmoid(a[s]), write[s] = simd::sigmoid(a[S + s]);
      for (int t = 0; t < S; ++t) carry[s][t] = a[2 * S + s * S + t];
    }
    sinkhorn.forward(carry);
  }
};

constexpr int kRowsTogether = 64;  // a multiple of every W: the same rows share a vector for any number of threads

template <int S, class F>
void each_manifold(const float* z, const Streams& p, int N, F f) {
  parallel_for(N, kRowsTogether, 200 * S * S, [&](int begin, int end) {
    for (int n = begin; n < end; n += simd::W) {
      const int lanes = std::min(simd::W, end - n);
      f(Manifold<S>(z, p, n, N, lanes), n, lanes);
    }
  });
}

void mhc_coefficients(float* coefficients, const float* z, const Streams& p, int N) {
  with_count(p.count, [&](auto count) {
    constexpr int S = count;
    each_manifold<S>(z, p, N, [&](const Manifold<S>& m, int n, int lanes) {
      for (int s = 0; s < S; ++s) {
        float* out = coefficients + plane(s * (S + 2), N) + n;
        store(out, m.read[s] + kSinkhornEps, lanes);
        for (int t = 0; t < S; ++t) store(out + plane(1 + t, N), m.sinkhorn.out()[s][t], lanes);
        store(out + plane(S + 1, N), 2.f * m.write[s], lanes);
      }
    });
  });
}

// d holds the gradients of the coefficients and then those of z, whose rows have the order of the weight.
void mhc_coefficients_backward(float* d, const Streams& g, const float* z, const Streams& p, int N) {
  with_count(p.count, [&](auto count) {
    constexpr int S = count;
    each_manifold<S>(z, p, N, [&](const Manifold<S>& m, int n, int lanes) {
      Vec da[S * (S + 2)], dcarry[S][S];
      for (int s = 0; s < S; ++s) {
        const float* of = d + plane(s * (S + 2), N) + n;
        da[s] = load(of, lanes) * m.read[s] * (1.f - m.read[s]);
        da[S + s] = 2.f * load(of + plane(S + 1, N), lanes) * m.write[s] * (1.f - m.write[s]);
        for (int t = 0; t < S; ++t) dcarry[s][t] = load(of + plane(1 + t, N), lanes);
      }
      m.sinkhorn.backward(dcarry);
      for (int i = 0; i < S * S; ++i) da[2 * S + i] = dcarry[i / S][i % S];
      for (int k = 0; k < S * (S + 2); ++k) store(d + plane(k, N) + n, da[k], lanes);
    });
    std::vector<double> dscale(p.coefficients());
    each_coefficient(S, N, [&](int k, int, int) {  // a = scale·z + bias
      float* da = d + plane(k, N);
      g.bias[k] += static_cast<float>(sum_of(da, N));
      dscale[k] = 0;
      for (int n = 0; n < N; ++n) dscale[k] += static_cast<double>(da[n]) * z[plane(k, N) + n];
      const float scale = p.scale[Manifold<S>::kind(k)];
      for (int n = 0; n < N; ++n) da[n] *= scale;
    });
    double sums[3] = {};
    for (int k = 0; k < p.coefficients(); ++k) sums[Manifold<S>::kind(k)] += dscale[k];
    for (int i = 0; i < 3; ++i) g.scale[i] += static_cast<float>(sums[i]);
  });
}

// ---- z -----------------------------------------------------------------------------------------------------------

// z, the weight and x as the three products of a stream take them: rows of z and of the weight, and how far the rows of
// the weight are apart. The streams of hyper have the same weight and rows of their own.
struct Product {
  int rows;
  size_t from_z, from_weight, stride;  // of stream s the first two s times
};
Product product_of(const Streams& p, int N, int C) {
  if (p.rule == StreamRule::mhc) return {p.coefficients(), 0, size_t(C), plane(p.count, C)};
  return {p.count + 2, plane(p.count + 2, N), 0, size_t(C)};
}

constexpr int kColumnsTogether = 64;

// z = weight·xᵀ, of mHC summed over the streams
void project(float* z, const float* x, const Streams& p, int N, int C) {
  const Product product = product_of(p, N, C);
  parallel_for(N, kRowsTogether, plane(p.coefficients(), C), [&](int begin, int end) {
    for (int s = 0; s < p.count; ++s)
      gemm_serial(z + s * product.from_z + begin, N, {p.weight + s * product.from_weight, product.stride, 1},
                  {x + s * plane(N, C) + plane(begin, C), 1, size_t(C)}, product.rows, end - begin, C,
                  product.from_z == 0 && s > 0);
  });
}

// dweight += dz·x. Without a gradient the weight does not train.
void project_backward_weight(float* dweight, const float* dz, const float* x, const Streams& p, int N, int C) {
  if (!dweight) return;
  const Product product = product_of(p, N, C);
  parallel_for(C, kColumnsTogether, plane(p.coefficients(), N), [&](int begin, int end) {
    for (int s = 0; s < p.count; ++s)
      gemm_serial(dweight + s * product.from_weight + begin, product.stride, {dz + s * product.from_z, size_t(N), 1},
                  {x + s * plane(N, C) + begin, size_t(C), 1}, product.rows, end - begin, N, true);
  });
}

// dx = dzᵀ·weight, or added to it
void project_backward(float* dx, const float* dz, const Streams& p, int N, int C, bool accumulate) {
  const Product product = product_of(p, N, C);
  parallel_for(N, kRowsTogether, plane(p.coefficients(), C), [&](int begin, int end) {
    for (int s = 0; s < p.count; ++s)
      gemm_serial(dx + s * plane(N, C) + plane(begin, C), C, {dz + s * product.from_z + begin, 1, size_t(N)},
                  {p.weight + s * product.from_weight, product.stride, 1}, end - begin, C, product.rows, accumulate);
  });
}

// rstd[n] = 1/√(mean x² + eps), over the numbers of all streams; z times it.
void normalize_z(float* z, float* rstd, const float* x, const Streams& p, int N, int C) {
  parallel_for(N, kRowsTogether, plane(p.count, C), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      double squares = 0;
      for (int s = 0; s < p.count; ++s) {
        const float* row = x + s * plane(N, C) + plane(n, C);
        squares += simd::dot(row, row, C);
      }
      rstd[n] = static_cast<float>(1 / std::sqrt(squares / (double(p.count) * C) + static_cast<double>(p.eps)));
    }
    for (int k = 0; k < p.coefficients(); ++k)
      for (int n = begin; n < end; ++n) z[plane(k, N) + n] *= rstd[n];
  });
}

// z = rstd·u: dz becomes du, and d gets −rstd²/(S·C)·(Σ dz·z)·x, the gradient through rstd.
void normalize_z_backward(float* dz, float* d, const float* x, const StreamsSaved& saved, const Streams& p, int N,
                          int C) {
  parallel_for(N, kRowsTogether, 3 * plane(p.count, C), [&](int begin, int end) {
    for (int n = begin; n < end; ++n) {
      double sum = 0;
      for (int k = 0; k < p.coefficients(); ++k) {
        const size_t at = plane(k, N) + n;
        sum += static_cast<double>(dz[at]) * saved.z[at];
        dz[at] *= saved.rstd[n];
      }
      const double r = static_cast<double>(saved.rstd[n]);
      const Vec factor = all(static_cast<float>(-r * r * sum / (double(p.count) * C)));
      for (int s = 0; s < p.count; ++s) {
        const size_t row = s * plane(N, C) + plane(n, C);
        sweep(C, [&](int c, int lanes) {
          float* dx = d + row + c;
          store(dx, multiply_add(load(dx, lanes), factor, load(x + row + c, lanes)), lanes);
        });
      }
    }
  });
}

}  // namespace

// ---- reading -----------------------------------------------------------------------------------------------------

void stream_coefficients(float* coefficients, const StreamsSaved& saved, const Streams& p, int N) {
  if (p.rule == StreamRule::mhc) mhc_coefficients(coefficients, saved.z, p, N);
  else hyper_coefficients(coefficients, saved.z, p, N);
}

const float* streams_read(const StreamsSaved& saved, const StreamsScratch& scratch, const float* x, const Streams& p,
                          int N, int C, bool training) {
  if (p.rule == StreamRule::hyper) {
    norm_forward(scratch.wide, saved.norm, x, p.norm, p.count * N, C, training);
    project(saved.z, scratch.wide, p, N, C);
  } else if (p.rule == StreamRule::mhc) {
    project(saved.z, x, p, N, C);
    normalize_z(saved.z, saved.rstd, x, p, N, C);
  }
  stream_coefficients(scratch.coefficients, saved, p, N);
  read_streams(saved.h, scratch.coefficients, x, p.count, N, C);
  return saved.h;
}

void streams_read_backward(float* d, const Streams& g, const StreamsScratch& scratch, const float* dh, const float* x,
                           const StreamsSaved& saved, const Streams& p, int N, int C) {
  const int S = p.count;
  read_streams_backward(d, scratch.d, scratch.coefficients, dh, x, S, N, C);
  if (p.rule == StreamRule::mhc) {
    mhc_coefficients_backward(scratch.d, g, saved.z, p, N);
    normalize_z_backward(scratch.d, d, x, saved, p, N, C);
    project_backward_weight(g.weight, scratch.d, x, p, N, C);
    project_backward(d, scratch.d, p, N, C, true);
    return;
  }
  hyper_coefficients_backward(scratch.d, g, saved.z, p, N);
  if (p.rule == StreamRule::hyper_static) return;
  norm_forward(scratch.wide, saved.norm, x, p.norm, S * N, C, true);  // again: it was not kept
  project_backward_weight(g.weight, scratch.d, scratch.wide, p, N, C);
  project_backward(scratch.wide, scratch.d, p, N, C, false);
  norm_backward(scratch.wide, g.norm, scratch.wide, x, saved.norm, p.norm, S * N, C);
  scaled_add(d, 1, d, scratch.wide, S * N, C);
}

// ---- the ends of the streams -------------------------------------------------------------------------------------

namespace {

void copy_plane(float* to, const float* from, int N, int C) {
  parallel_for(N, 1, C, [&](int begin, int end) {
    std::memcpy(to + plane(begin, C), from + plane(begin, C), plane(end - begin, C) * sizeof(float));
  });
}

// sum = Σₛ x[s], in the order of s; sum may be x[0].
void add_planes(float* sum, const float* x, int S, int N, int C) {
  parallel_for(N, 1, plane(S, C), [&](int begin, int end) {
    for (size_t i = plane(begin, C); i < plane(end, C); ++i) {
      float total = x[i];
      for (int s = 1; s < S; ++s) total += x[s * plane(N, C) + i];
      sum[i] = total;
    }
  });
}

}  // namespace

void streams_begin(float* streams, const float* x, int S, int N, int C) {
  for (int s = 0; s < S; ++s) copy_plane(streams + s * plane(N, C), x, N, C);
}

void streams_begin_backward(float* d, int S, int N, int C) {
  if (S > 1) add_planes(d, d, S, N, C);
}

StreamsEnd declare_streams_end(Layout& layout, const Config& config, int N) {
  StreamsEnd end;
  end.rule = rule_of(config), end.count = stream_count(config);
  const bool mixes = end.rule != StreamRule::single && end.rule != StreamRule::dual;
  if (mixes) end.sum = layout.take("streams.sum", Role::streams, {N, config.channels});
  if (*config.final_norm) end.norm = declare_norm_saved(layout, config, "final_norm", N, config.channels);
  if (*config.final_norm || end.rule == StreamRule::dual)
    end.h = layout.take("final_norm", Role::norm, {N, config.channels});
  return end;
}

const float* before_final_norm(const StreamsEnd& end, const float* x, int N, int C) {
  return end.sum ? end.sum : end.rule == StreamRule::dual ? x + plane(N, C) : x;
}

const float* streams_end(const StreamsEnd& end, const float* x, const Norm& norm, int N, int C, bool training) {
  if (end.sum) add_planes(end.sum, x, end.count, N, C);
  const float* h = norm_forward(end.h, end.norm, before_final_norm(end, x, N, C), norm, N, C, training);
  if (end.rule != StreamRule::dual) return h;
  scaled_add(end.h, 1, x, h, N, C);
  return end.h;
}

void streams_end_backward(float* d, const Norm& g, const float* x, const StreamsEnd& end, const Norm& norm, int N,
                          int C) {
  const float* in = before_final_norm(end, x, N, C);
  if (end.rule == StreamRule::dual) {  // h = x[0] + norm(x[1])
    float* second = d + plane(N, C);
    if (norm_backward(second, g, d, in, end.norm, norm, N, C) != second) copy_plane(second, d, N, C);
    return;
  }
  norm_backward(d, g, d, in, end.norm, norm, N, C);
  for (int s = 1; s < end.count; ++s) copy_plane(d + s * plane(N, C), d, N, C);  // sum = Σₛ x[s]
}
