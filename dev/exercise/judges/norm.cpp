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
  Saved saved = {Doubles(N), Doubles(N)};
};
Forward forward_of(const Doubles& x, const Norm& p) {
  Forward f;
  textbook::answer::row_forward(f.y.data(), f.saved, x.data(), p, N, C);
  return f;
}

// The factors that are mistaken in a mean over C: first what they are, then by how much the mean changes.
const std::vector<Factor> divisors = {{"a sum instead of @: / C is missing", C},
                                      {"@ is divided by N, and is to be by C", double(C) / N},
                                      {"@ is divided by C - 1, and is to be by C", C / (C - 1.)}};
std::string naming(const std::string& text, const std::string& term) {
  return std::string(text).replace(text.find('@'), 1, term);
}

// ---- forward -------------------------------------------------------------------------------------------------

// A formula of y, μ and r that differs from the right one in what a row of the table sets:
//   y = gain·(x - μ)·r^front + bias      μ = mean·mean(x)
//   r = (√(variance·mean((x - μ)²) + eps) + outside)^-root
struct ForwardFormula {
  std::string text;
  double mean = 1, variance = 1, eps = 1, outside = 0, root = 1, front = 1;
  bool centered = true, variance_centered = true, squared = true, gain = true, bias = true;
  bool bias_inside = false;  // gain·(x̂ + bias)
  bool kept = false;         // the sums go on from one row to the next
  bool layernorm = true, rmsnorm = true;  // the norms it applies to
  bool has_mean = false;                  // RMSNorm with a mean
};

std::vector<ForwardFormula> forward_formulas() {
  std::vector<ForwardFormula> rows = {
      {.text = "eps is missing", .eps = 0},
      {.text = "eps is outside of the root", .eps = 0, .outside = 1},
      {.text = "the root is missing: r = 1/√(variance + eps)", .root = 2},
      {.text = "r is 1/σ, and here it is σ", .root = -1},
      {.text = "r is 1/σ, and here it is σ", .root = -1, .front = -1},
      {.text = "r is 1/√(variance + eps), and here it is variance + eps", .root = -2, .front = -.5},
      {.text = "r is 1/√(variance + eps), and here it is variance + eps", .root = -2},
      {.text = "(x - μ) is divided by r, and is to be multiplied", .front = -1},
      {.text = "the factor r is missing", .front = 0},
      {.text = "the factor r occurs twice", .front = 2},
      {.text = "the mean is not subtracted", .mean = 0, .rmsnorm = false},
      {.text = "the mean is not subtracted in y", .centered = false, .rmsnorm = false},
      {.text = "the mean is not subtracted in the variance", .variance_centered = false, .rmsnorm = false},
      {.text = "the mean is subtracted neither in y nor in the variance",
       .centered = false, .variance_centered = false, .rmsnorm = false},
      {.text = "the mean is added, not subtracted", .mean = -1, .rmsnorm = false},
      {.text = "the variance is the mean of (x - μ)²: the square is missing", .squared = false},
      {.text = "the gain is missing", .gain = false},
      {.text = "the gain and the bias are missing", .gain = false, .bias = false},
      {.text = "the bias is missing", .bias = false},
      {.text = "the gain multiplies x̂, not the bias", .bias_inside = true},
      {.text = "the sums are not set to 0 for each row", .kept = true},
      {.text = "RMSNorm subtracts no mean", .layernorm = false, .has_mean = true},
      {.text = "RMSNorm subtracts no mean, in y either", .variance_centered = false, .layernorm = false,
       .has_mean = true},
      {.text = "RMSNorm's r is of the mean of x², not of the variance", .centered = false, .layernorm = false,
       .has_mean = true},
      {.text = "RMSNorm subtracts no mean: saved.mean is 0",
       .centered = false, .variance_centered = false, .layernorm = false, .has_mean = true}};
  for (const auto& [text, value] : divisors) {
    rows.push_back({.text = naming(text, "μ"), .mean = value, .rmsnorm = false});
    rows.push_back({.text = naming(text, "the variance"), .variance = value});
    rows.push_back({.text = naming(text, "each mean"), .mean = value, .variance = value, .rmsnorm = false});
  }
  return rows;
}

Forward forward_by(const ForwardFormula& f, const Doubles& x, const Norm& p) {
  Forward result;
  double mean = 0, variance = 0;
  for (size_t n = 0; n < N; ++n) {
    if (!f.kept) mean = variance = 0;
    const double* row = &x[n * C];
    for (size_t c = 0; c < C && (p.kind == NormKind::layernorm || f.has_mean); ++c) mean += f.mean * row[c] / C;
    for (size_t c = 0; c < C; ++c)
      variance += f.variance * std::pow(row[c] - f.variance_centered * mean, f.squared ? 2 : 1) / C;
    const double r = std::pow(std::sqrt(variance + f.eps * eps) + f.outside * eps, -f.root);
    for (size_t c = 0; c < C; ++c) {
      const double xhat = (row[c] - f.centered * mean) * std::pow(r, f.front), bias = f.bias * p.bias_at(c);
      result.y[n * C + c] = (f.gain ? p.gain_at(c) : 1) * (xhat + f.bias_inside * bias) + !f.bias_inside * bias;
    }
    result.saved.mean[n] = mean, result.saved.rstd[n] = r;
  }
  return result;
}

void forward(Judge& judge) {
  const Doubles x = numbers(N * C, 1);
  for (const Case& c : cases) {
    Guarded gain(numbers(C, 3)), bias(numbers(C, 4));
    const Guarded in(x);
    const Norm p = parameters(c, gain.data(), bias.data());
    const Forward want = forward_of(x, p);
    std::vector<Mistake> of_mean, of_rstd, of_y;
    for (const ForwardFormula& formula : forward_formulas()) {
      if (c.kind == NormKind::layernorm ? !formula.layernorm : !formula.rmsnorm) continue;
      const Forward f = forward_by(formula, x, p);
      of_mean.push_back({formula.text, f.saved.mean});
      of_rstd.push_back({formula.text, f.saved.rstd});
      of_y.push_back({formula.text, f.y});
    }
    Norm plain = p;
    plain.unit_offset = false;
    of_y.push_back({"the gain is 1 + w here: p.gain_at(c), not p.gain[c]", forward_of(x, plain).y});
    judge.test(c.title, factors,
               {written("saved.mean", {{"n", N}}, want.saved.mean, of_mean),
                written("saved.rstd", {{"n", N}}, want.saved.rstd, of_rstd),
                written("y", {{"n", N}, {"c", C}}, want.y, of_y)},
               [&](auto out) {
                 Saved saved;
                 textbook::row_forward<double>(out[2], saved, in.data(), p, N, C);
                 if (saved.mean.size() == N) std::copy_n(saved.mean.data(), N, out[0]);
                 if (saved.rstd.size() == N) std::copy_n(saved.rstd.data(), N, out[1]);
               });
  }
}

// ---- backward ------------------------------------------------------------------------------------------------

// A formula of dx that differs from the right one in what a row of the table sets:
//   dx = r^front·(dy·gain - mean·mean(dy·gain) - dot·x̂·mean(dy·gain·x̂))      x̂ = (x - μ)·r^inside
struct Formula {
  std::string text;
  double front = 1, inside = 1, mean = 1, dot = 1;
  bool gain = true, gain_in_mean = true, gain_in_dot = true, centered = true;  // not centered: x̂ = x·r^inside
  bool kept = false;                      // the sums go on from one row to the next
  bool layernorm = true, rmsnorm = true;  // the norms it applies to: RMSNorm has no mean(dx̂)
};

std::vector<Formula> formulas() {
  std::vector<Formula> rows = {
      {.text = "x's ways through μ and r are missing: there is only r·dx̂", .mean = 0, .dot = 0, .rmsnorm = false},
      {.text = "x's way through μ is missing: - mean(dx̂)", .mean = 0, .rmsnorm = false},
      {.text = "x's way through r is missing: - x̂·mean(dx̂·x̂)", .dot = 0},
      {.text = "RMSNorm has no μ: without - mean(dx̂)", .layernorm = false},
      {.text = "there are sums over C where means belong", .mean = C, .dot = C, .rmsnorm = false},
      {.text = "both means are divided by N, and are to be by C",
       .mean = double(C) / N, .dot = double(C) / N, .rmsnorm = false},
      {.text = "both means are divided by C - 1, and are to be by C",
       .mean = C / (C - 1.), .dot = C / (C - 1.), .rmsnorm = false},
      {.text = "the gain is missing: dx̂ = dy·gain", .gain = false, .gain_in_mean = false, .gain_in_dot = false},
      {.text = "the gain is missing in the first term: dx̂ = dy·gain, as in the means", .gain = false},
      {.text = "the gain is missing in both means: dx̂ = dy·gain",
       .gain_in_mean = false, .gain_in_dot = false, .rmsnorm = false},
      {.text = "the gain is missing in mean(dx̂): dx̂ = dy·gain", .gain_in_mean = false, .rmsnorm = false},
      {.text = "the gain is missing in mean(dx̂·x̂): dx̂ = dy·gain", .gain_in_dot = false},
      {.text = "the sums are not set to 0 for each row", .kept = true},
      {.text = "x instead of x̂ = (x - μ)·r", .inside = 0, .centered = false},
      {.text = "x̂ is (x - μ)·r, and here it is without the r", .inside = 0, .rmsnorm = false},
      {.text = "the factor r in front is missing", .front = 0},
      {.text = "the factor in front is r, and here it is r²", .front = 2},
      {.text = "r is 1/σ: the factor in front is r, not 1/r", .front = -1},
      {.text = "r is 1/σ: x̂ is (x - μ)·r, not (x - μ)/r", .inside = -1},
      {.text = "r is 1/σ, and is used as if it were σ", .front = -1, .inside = -1}};
  std::vector<Factor> wrong = divisors;
  wrong.push_back({"half of @ is subtracted, and all of it is to be", .5});
  wrong.push_back({"twice @ is subtracted, and is to be once", 2});
  wrong.push_back({"the sign of @ is the wrong way round", -1});
  for (const auto& [text, value] : wrong) {
    rows.push_back({.text = naming(text, "mean(dx̂)"), .mean = value, .rmsnorm = false});
    rows.push_back({.text = naming(text, value < 0 ? "x̂·mean(dx̂·x̂)" : "mean(dx̂·x̂)"), .dot = value});
  }
  return rows;
}

Doubles dx_of(const Formula& f, const Doubles& dy, const Doubles& x, const Saved& saved, const Norm& p) {
  const bool has_mean = p.kind == NormKind::layernorm || !f.layernorm;
  Doubles dx(N * C);
  double mean = 0, dot = 0;
  for (size_t n = 0; n < N; ++n) {
    if (!f.kept) mean = dot = 0;
    const double r = saved.rstd[n], center = f.centered ? saved.mean[n] : 0;
    const auto xhat = [&](size_t c) { return (x[n * C + c] - center) * std::pow(r, f.inside); };
    const auto d = [&](size_t c, bool gain) { return dy[n * C + c] * (gain ? p.gain_at(c) : 1); };
    for (size_t c = 0; c < C; ++c) mean += d(c, f.gain_in_mean) / C, dot += d(c, f.gain_in_dot) * xhat(c) / C;
    for (size_t c = 0; c < C; ++c)
      dx[n * C + c] = std::pow(r, f.front) * (d(c, f.gain) - has_mean * f.mean * mean - f.dot * xhat(c) * dot);
  }
  return dx;
}

// dx without some of its terms, or with wrong ones.
std::vector<Mistake> mistakes(const Doubles& dy, const Doubles& x, const Saved& saved, const Norm& p) {
  Doubles without_offset(N * C), unused(C);
  Norm plain = p;
  plain.unit_offset = false;
  Norm gradients = parameters({"", p.kind, false, false}, unused.data(), unused.data());
  textbook::answer::row_backward(without_offset.data(), gradients, dy.data(), x.data(), saved, plain, N, C);
  std::vector<Mistake> found;
  if (p.unit_offset) found.push_back({"the gain is 1 + w here: p.gain_at(c), not p.gain[c]", without_offset});
  for (const Formula& f : formulas())
    if (p.kind == NormKind::layernorm ? f.layernorm : f.rmsnorm) found.push_back({f.text, dx_of(f, dy, x, saved, p)});
  return found;
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
    Doubles of_x(C), no_r(C), over_r(C), last(C), last_dy(dy.end() - C, dy.end());
    for (size_t k = 0; k < N * C; ++k) {
      const double r = saved.rstd[k / C], centered = x[k] - saved.mean[k / C];
      of_x[k % C] += dy[k] * x[k];
      no_r[k % C] += dy[k] * centered;
      over_r[k % C] += dy[k] * centered / r;
      last[k % C] = dy[k] * centered * r;
    }
    const std::string last_row = "only what the last row gives is left: += over n";
    std::vector<Mistake> of_gain = {{"x instead of x̂ = (x - μ)·r", of_x},
                                    {"r is 1/σ: x̂ is (x - μ)·r, not (x - μ)/r", over_r},
                                    {last_row, last}};
    if (c.kind == NormKind::layernorm) of_gain.push_back({"x̂ is (x - μ)·r, and here it is without the r", no_r});
    std::vector<Output> outputs = {
        written("dx", {{"n", N}, {"c", C}}, g[0], mistakes(dy, x, saved, p)),
        added("dgain", {{"c", C}}, g[1], of_gain)};
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
