#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

using Norm = textbook::Norm<double>;
using Saved = textbook::NormSaved<double>;

struct Case {
  const char* title;
  NormKind kind;
  bool bias, unit_offset;
};
const Case cases[] = {{"LayerNorm · N=3 C=5", NormKind::layernorm, true, false},
                      {"LayerNorm without a bias", NormKind::layernorm, false, false},
                      {"RMSNorm", NormKind::rmsnorm, false, false},
                      {"RMSNorm whose gain is 1 + w", NormKind::rmsnorm, false, true}};

const size_t N = 3, C = 5;
const double eps = .1;  // large, so that a missing eps shows
const std::vector<Factor> factors = {{"N", N}, {"C", C}, {"C - 1", C - 1}, {"2", 2}};

template <class Number>
textbook::Norm<Number> parameters(const Case& c, Number* gain, Number* bias) {
  textbook::Norm<Number> p{c.kind, eps, gain, c.bias ? bias : nullptr};
  p.unit_offset = c.unit_offset;
  return p;
}

// The results of forward: y, μ and r.
struct Forward {
  Doubles y = Doubles(N * C);
  Saved saved;
};
Forward forward_of(const Doubles& x, const Norm& p) {
  Forward f;
  textbook::answer::row_forward(f.y.data(), f.saved, x.data(), p, N, C);
  return f;
}

void forward(Judge& judge) {
  const Doubles x = numbers(N * C, 1);
  for (const Case& c : cases) {
    Guarded gain(numbers(C, 3)), bias(numbers(C, 4));
    const Guarded in(x);
    const Norm p = parameters(c, gain.data(), bias.data());
    Norm other = p, no_eps = p;
    other.kind = c.kind == NormKind::layernorm ? NormKind::rmsnorm : NormKind::layernorm;
    no_eps.eps = 0;
    const Forward want = forward_of(x, p);
    // Wrong formulas for r, with the same μ.
    Forward unbiased = want, outside = want;
    for (size_t n = 0; n < N; ++n) {
      const double variance = std::pow(want.saved.rstd[n], -2) - eps;
      unbiased.saved.rstd[n] = 1 / std::sqrt(variance * C / (C - 1) + eps);
      outside.saved.rstd[n] = 1 / (std::sqrt(variance) + eps);
      for (size_t k = n * C; k < n * C + C; ++k)
        for (Forward* f : {&unbiased, &outside})
          f->y[k] = p.gain_at(k % C) * (x[k] - want.saved.mean[n]) * f->saved.rstd[n] + p.bias_at(k % C);
    }
    const std::string without = "eps is missing", is_outside = "eps is outside of the root",
                      sample = "the variance is divided by C - 1, and is to be by C";
    judge.test(c.title, factors,
               {written("saved.mean", {{"n", N}}, want.saved.mean),
                written("saved.rstd", {{"n", N}}, want.saved.rstd,
                        {{without, forward_of(x, no_eps).saved.rstd},
                         {is_outside, outside.saved.rstd},
                         {sample, unbiased.saved.rstd},
                         {c.kind == NormKind::rmsnorm ? "RMSNorm subtracts no mean" : "the mean is not subtracted",
                          forward_of(x, other).saved.rstd}}),
                written("y", {{"n", N}, {"c", C}}, want.y,
                        {{without, forward_of(x, no_eps).y}, {is_outside, outside.y}, {sample, unbiased.y}})},
               [&](auto out) {
                 Saved saved;
                 textbook::row_forward<double>(out[2], saved, in.data(), p, N, C);
                 if (saved.mean.size() == N) std::copy_n(saved.mean.data(), N, out[0]);
                 if (saved.rstd.size() == N) std::copy_n(saved.rstd.data(), N, out[1]);
               });
  }
}

// dx without some of its terms, or with wrong ones.
std::vector<Mistake> mistakes(const Doubles& dy, const Doubles& x, const Saved& saved, const Norm& p) {
  const Doubles zero(N * C);
  Doubles ungained = zero, free = zero, no_mean = zero, no_dot = zero, sums = zero, sum_mean = zero, sum_dot = zero,
          centered = zero, raw = zero, unscaled = zero, plus_mean = zero, plus_dot = zero, without_offset = zero;
  for (size_t n = 0; n < N; ++n) {
    const double r = saved.rstd[n], centre = p.kind == NormKind::layernorm;
    double mean = 0, dot = 0, plain_mean = 0, plain_dot = 0, raw_dot = 0;
    for (size_t c = 0; c < C; ++c) {
      const double d = dy[n * C + c], xhat = (x[n * C + c] - saved.mean[n]) * r;
      mean += d * p.gain_at(c) / C, dot += d * p.gain_at(c) * xhat / C;
      plain_mean += d / C, plain_dot += d * xhat / C, raw_dot += d * p.gain_at(c) * x[n * C + c] / C;
    }
    for (size_t c = 0; c < C; ++c) {
      const size_t k = n * C + c;
      const double d = dy[k] * p.gain_at(c), xhat = (x[k] - saved.mean[n]) * r;
      free[k] = r * d;
      no_mean[k] = r * (d - xhat * dot);
      no_dot[k] = r * (d - centre * mean);
      centered[k] = r * (d - mean - xhat * dot);
      sums[k] = r * (d - C * centre * mean - C * xhat * dot);
      sum_mean[k] = r * (d - C * centre * mean - xhat * dot);
      sum_dot[k] = r * (d - centre * mean - C * xhat * dot);
      ungained[k] = r * (dy[k] - centre * plain_mean - xhat * plain_dot);
      raw[k] = r * (d - centre * mean - x[k] * raw_dot);
      plus_mean[k] = r * (d + centre * mean - xhat * dot);
      plus_dot[k] = r * (d - centre * mean + xhat * dot);
      unscaled[k] = d - centre * mean - xhat * dot;
    }
  }
  Norm plain = p;
  plain.unit_offset = false;
  Doubles unused(C);
  Norm gradients = parameters({"", p.kind, false, false}, unused.data(), unused.data());
  textbook::answer::row_backward(without_offset.data(), gradients, dy.data(), x.data(), saved, plain, N, C);
  return {{"the gain is 1 + w here: p.gain_at(c), not p.gain[c]", without_offset},
          {"x's ways through μ and r are missing: there is only r·dx̂", free},
          {"x's way through μ is missing: - mean(dx̂)", no_mean},
          {"x's way through r is missing: - x̂·mean(dx̂·x̂)", no_dot},
          {"RMSNorm has no μ: without - mean(dx̂)", centered},
          {"the sign of mean(dx̂) is the wrong way round", plus_mean},
          {"the sign of x̂·mean(dx̂·x̂) is the wrong way round", plus_dot},
          {"there are sums over C where means belong", sums},
          {"a sum stands where mean(dx̂) belongs: / C is missing", sum_mean},
          {"a sum stands where mean(dx̂·x̂) belongs: / C is missing", sum_dot},
          {"the gain is missing: dx̂ = dy·gain", ungained},
          {"x stands where x̂ = (x - μ)·r belongs", raw},
          {"the factor r in front is missing", unscaled}};
}

void backward(Judge& judge) {
  const Doubles dy = numbers(N * C, 1), x = numbers(N * C, 2), gain = numbers(C, 3), bias = numbers(C, 4);
  for (const Case& c : cases) {
    const auto g = complex_step(dy, {x, gain, bias}, [&](Tensors& t) {
      std::vector<Complex> y(N * C);
      textbook::NormSaved<Complex> saved;
      textbook::row_forward(y.data(), saved, t[0].data(), parameters(c, t[1].data(), t[2].data()), N, C);
      return y;
    });
    Guarded in_gain(gain), in_bias(bias);
    const Guarded in_dy(dy), in_x(x);
    const Norm p = parameters(c, in_gain.data(), in_bias.data());
    const Saved saved = forward_of(x, p).saved;
    Doubles of_x(C), last(C), last_dy(dy.end() - C, dy.end());
    for (size_t k = 0; k < N * C; ++k) {
      of_x[k % C] += dy[k] * x[k];
      last[k % C] = dy[k] * (x[k] - saved.mean[k / C]) * saved.rstd[k / C];
    }
    const std::string last_row = "only what the last row gives is left: += over n";
    std::vector<Output> outputs = {
        written("dx", {{"n", N}, {"c", C}}, g[0], mistakes(dy, x, saved, p)),
        added("dgain", {{"c", C}}, g[1], {{"x stands where x̂ = (x - μ)·r belongs", of_x}, {last_row, last}})};
    if (c.bias) outputs.push_back(added("dbias", {{"c", C}}, g[2], {{last_row, last_dy}}));
    judge.test(c.title, factors, outputs, [&](auto out) {
      const Norm gradients = parameters(c, out[1], c.bias ? out[2] : nullptr);
      textbook::row_backward<double>(out[0], gradients, in_dy.data(), in_x.data(), saved, p, N, C);
    });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"norm_forward", forward}, {"norm", backward}};

}  // namespace exercise
