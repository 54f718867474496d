#pragma once
// Helpers for tests of the textbook: its headers, and small parts of models built from its layers.

#include <complex>

#include "check.hpp"
#include "layers/feed_forward/activation.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/embedding/embedding.hpp"
#include "layers/embedding/unit_rows.hpp"
#include "layers/model/model.hpp"
#include "layers/training/optimizer.hpp"
#include "layers/textbook/activation.hpp"
#include "layers/textbook/adamw.hpp"
#include "layers/textbook/attention.hpp"
#include "layers/textbook/cross_entropy.hpp"
#include "layers/textbook/dropout.hpp"
#include "layers/textbook/embedding.hpp"
#include "layers/textbook/linear.hpp"
#include "layers/textbook/norm.hpp"
#include "layers/textbook/position.hpp"
#include "layers/textbook/residual.hpp"
#include "layers/textbook/unit_rows.hpp"

using Doubles = std::vector<double>;
template <class Number>
using Tensors = std::vector<std::vector<Number>>;

inline Doubles random_doubles(size_t n, uint64_t seed, float mean = 0, float deviation = 1) {
  return widen(random_floats(n, seed, mean, deviation));
}

// f[n,c] = u[n,c]·u[n,c+1]: a sublayer that mixes channels, for tests of residual branches.
template <class Number>
struct Neighbors {
  size_t N, C;
  size_t next(size_t i) const { return (i + 1) % C == 0 ? i + 1 - C : i + 1; }
  void forward(Number* f, const Number* u) const {
    for (size_t i = 0; i < N * C; ++i) f[i] = u[i] * u[next(i)];
  }
  void backward(Number* du, const Number* df, const Number* u) const {
    std::fill_n(du, N * C, Number(0));
    for (size_t i = 0; i < N * C; ++i) {
      du[i] += df[i] * u[next(i)];
      du[next(i)] += df[i] * u[i];
    }
  }
};

inline constexpr int kLayer = 2;  // the tested block, of four or more

// A branch with tensors 1, 2 as gain and bias of norm_in, 3, 4 of norm_out, 5, 6 of norm_sum and 7 as λ, if present.
template <class Number>
textbook::Branch<Number> branch_of(const Placement& row, Tensors<Number>& t, bool centered = true) {
  const auto norm = [&](bool there, size_t at) {
    const NormKind kind = centered ? NormKind::layernorm : NormKind::rmsnorm;
    return there ? textbook::Norm<Number>{kind, 1e-5, t[at].data(), t[at + 1].data()}
                 : textbook::Norm<Number>{};
  };
  textbook::Gain<Number> gain;
  if (row.gain != LearnedGain::none) gain = {t[7].data(), row.gain == LearnedGain::block};
  return {norm(row.norm_in, 1), norm(row.norm_out, 3), norm(row.norm_sum, 5), gain, 1.7, row.in_scale(kLayer)};
}

// The tensors of one norm in the order of its table.
template <class Number>
textbook::Norm<Number> textbook_norm(const Config& config, Tensors<Number>& t) {
  textbook::Norm<Number> p{config.norm, config.norm_eps, t[0].data()};
  size_t next = 1;
  p.unit_offset = config.norm_unit_offset;
  if (*config.norm_bias) p.bias = t[next++].data();
  if (config.norm == NormKind::batchnorm) p.running_mean = t[next].data(), p.running_var = t[next + 1].data();
  if (config.norm == NormKind::dyt || config.norm == NormKind::derf) p.alpha = t[next].data();
  if (config.norm == NormKind::derf) p.shift = t[next + 1].data();
  if (config.norm == NormKind::gatednorm)
    p.down = t[next].data(), p.up = t[next + 1].data(), p.rank = size_t(config.gated_norm_rank);
  return p;
}

inline std::string at(std::initializer_list<int> sizes) {
  std::string name;
  for (const int size : sizes) name += (name.empty() ? "/" : "x") + std::to_string(size);
  return name + "/";
}

inline int width_of(Activation kind, int F) { return is_gated(kind) ? 2 * F : F; }

// The options for attention scores, one at a time and all together.
inline std::vector<std::pair<std::string, textbook::Scoring>> scorings(size_t H, size_t window) {
  Doubles slopes(H);
  for (size_t h = 0; h < H; ++h) slopes[h] = static_cast<float>(textbook::alibi_slope(h, H));
  return {{"scale", {.scale = .25}},
          {"cap", {.cap = 2}},
          {"alibi", {.slopes = slopes}},
          {"window", {.window = window}},
          {"all", {.scale = .75, .cap = 1.5, .window = window, .slopes = slopes}},
          {"bidirectional", {.causal = false}},
          {"bidirectional alibi", {.slopes = slopes, .causal = false}},
          {"bidirectional all", {.scale = .75, .cap = 1.5, .window = window, .slopes = slopes, .causal = false}}};
}

// The allowed error of a fast model's gradients against the textbook's: 4.5e-6 measured; 6.7e-6 with BatchNorm, which
// amplifies rounding errors; 1.3e-5 with a learned read at the end of streams; 1.3e-5 with hyper-connections, whose
// scales are two numbers that all tokens, streams and channels add to; 2.8e-5 with an encoder and norms of q, k and v;
// 4.1e-5 with both hyper-connections and an encoder, on a Zen 3, in a gradient that has 1.5 % of the length of all.
// That is the function more than its code: rounding the weights alone (each by a random 2^-25 of itself) changes these
// two by up to 2.3e-5 and 6e-6 in double precision, too.
inline double model_tolerance(const Config& c) {
  const Placement& row = placement_row(c.placement);
  if (row.streams == StreamRule::hyper && c.encoder_layers > 0) return 6e-5;
  if (row.streams == StreamRule::hyper || c.encoder_layers > 0) return 4e-5;
  return c.norm == NormKind::batchnorm || row.stream_end == StreamEnd::read ? 2e-5 : 1e-5;
}
