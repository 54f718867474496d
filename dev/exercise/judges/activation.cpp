#include <algorithm>
#include <numbers>

#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

// f' as the complex step of f.
double slope_of(double x, Activation kind) {
  return complex_step({1}, {{x}}, [&](const Tensors& t) {
    return std::vector<Complex>{textbook::answer::curve(t[0][0], kind).y};
  })[0][0];
}

// Wrong formulas of f and f'. A null one is right.
struct Formula {
  const char* text;
  double (*f)(double x);
  double (*slope)(double x);
};
const double root = std::sqrt(2 / std::numbers::pi), cubic = .044715;
double inner(double x) { return std::tanh(root * (x + cubic * x * x * x)); }
double sigma(double x) { return 1 / (1 + std::exp(-x)); }
double normal(double x) { return .5 * (1 + std::erf(x * std::sqrt(.5))); }  // Φ
double bell(double x) { return std::exp(-.5 * x * x) * root / 2; }         // φ

std::vector<Formula> formulas(Activation kind) {
  using enum Activation;
  if (kind == relu)
    return {{"f is max(x, 0), not |x|", [](double x) { return std::abs(x); }, nullptr},
            {"f' is 1 if x > 0, and not x", nullptr, [](double x) { return std::max(x, 0.); }},
            {"f' is 0 if x < 0", nullptr, [](double) { return 1.; }}};
  if (kind == relu2)
    return {{"f is max(x, 0)²: the square is missing", [](double x) { return std::max(x, 0.); }, nullptr},
            {"f is 0 if x < 0", [](double x) { return x * x; }, nullptr},
            {"f' is 0 if x < 0", nullptr, [](double x) { return 2 * x; }},
            {"f' is 2·max(x, 0): the 2 is missing", nullptr, [](double x) { return std::max(x, 0.); }}};
  if (kind == silu || kind == swiglu)
    return {{"f is x·σ(x): x is missing", sigma, nullptr},
            {"the slope has σ(x) alone: x·σ(1 − σ) is missing", nullptr, sigma},
            {"the slope has x·σ(1 − σ) alone: σ is missing", nullptr,
             [](double x) { return x * sigma(x) * (1 - sigma(x)); }},
            {"the slope is σ + x·σ(1 − σ): x is missing", nullptr,
             [](double x) { return sigma(x) + sigma(x) * (1 - sigma(x)); }},
            {"that is the slope of σ, not of x·σ", nullptr, [](double x) { return sigma(x) * (1 - sigma(x)); }}};
  if (kind == gelu || kind == geglu)
    return {{"Φ(x) has erf(x/√2), not erf(x)", [](double x) { return x * .5 * (1 + std::erf(x)); }, nullptr},
            {"f is x·Φ(x): x is missing", normal, nullptr},
            {"that is gelu-tanh: gelu has erf", [](double x) { return .5 * x * (1 + inner(x)); }, nullptr},
            {"the slope has Φ(x) alone: x·φ(x) is missing", nullptr, normal},
            {"the slope has x·φ(x) alone: Φ(x) is missing", nullptr, [](double x) { return x * bell(x); }},
            {"the slope is Φ(x) + x·φ(x): x is missing", nullptr, [](double x) { return normal(x) + bell(x); }},
            {"φ is without 1/√(2π)", nullptr, [](double x) { return normal(x) + x * std::exp(-.5 * x * x); }}};
  return {{"that is gelu: gelu-tanh has tanh", [](double x) { return x * normal(x); }, nullptr},
          {"u has .044715 x³, not x²",
           [](double x) { return .5 * x * (1 + std::tanh(root * (x + cubic * x * x))); }, nullptr},
          {"the slope lacks du/dx", nullptr,
           [](double x) { return .5 * (1 + inner(x)) + .5 * x * (1 - inner(x) * inner(x)); }},
          {"du/dx has 3·.044715 x²: the 3 is missing", nullptr,
           [](double x) {
             return .5 * (1 + inner(x)) + .5 * x * (1 - inner(x) * inner(x)) * root * (1 + cubic * x * x);
           }},
          {"du/dx has √(2/π), too", nullptr,
           [](double x) { return .5 * (1 + inner(x)) + .5 * x * (1 - inner(x) * inner(x)) * (1 + 3 * cubic * x * x); }},
          {"the slope of tanh is 1 − tanh², not 1 − tanh", nullptr,
           [](double x) { return .5 * (1 + inner(x)) + .5 * x * (1 - inner(x)) * root * (1 + 3 * cubic * x * x); }},
          {"the slope has ½(1 + tanh u) alone", nullptr, [](double x) { return .5 * (1 + inner(x)); }}};
}

// The mistakes in f, or in its slope.
std::vector<Mistake> mistakes_of(double (*Formula::*which)(double), Activation kind, const Doubles& x) {
  std::vector<Mistake> found;
  for (const Formula& formula : formulas(kind)) {
    if (!(formula.*which)) continue;
    found.push_back({formula.text, Doubles(x.size())});
    std::transform(x.begin(), x.end(), found.back().value.begin(), formula.*which);
  }
  return found;
}

void curve(Judge& judge) {
  const Doubles x = {-2.5, -1, -.3, .2, .8, 1.7};
  const size_t n = x.size();
  for (const auto kind : {Activation::relu, Activation::relu2, Activation::silu, Activation::gelu,
                          Activation::gelu_tanh, Activation::swiglu, Activation::geglu, Activation::geglu_tanh}) {
    Doubles f(n), slope(n);
    for (size_t i = 0; i < n; ++i) f[i] = textbook::answer::curve(x[i], kind).y, slope[i] = slope_of(x[i], kind);
    judge.test(std::string(name_of(kActivations, kind)) + " at x = -2.5 -1 -0.3 0.2 0.8 1.7", {{"2", 2}},
               {written("f", {{"i", n}}, f, mistakes_of(&Formula::f, kind, x)),
                written("f'", {{"i", n}}, slope, mistakes_of(&Formula::slope, kind, x))},
               [&](auto out) {
                 for (size_t i = 0; i < n; ++i) {
                   const textbook::Curve<double> c = textbook::curve<double>(x[i], kind);
                   out[0][i] = c.y, out[1][i] = c.slope;
                 }
               });
  }
}

void backward(Judge& judge) {
  const size_t N = 3, F = 4;
  for (const auto kind : {Activation::gelu, Activation::relu, Activation::swiglu, Activation::geglu_tanh}) {
    const bool gated = is_gated(kind);
    const size_t width = gated ? 2 * F : F;
    const Doubles dy = numbers(N * F, 1), x = numbers(N * width, 2);
    const auto g = complex_step(dy, {x}, [&](const Tensors& t) {
      std::vector<Complex> y(N * F);
      textbook::activation_forward(y.data(), t[0].data(), kind, N, F);
      return y;
    });
    Doubles value = g[0], ungated = g[0], swapped = g[0], plain = g[0], sloped = g[0], undriven = g[0];  // mistakes
    for (size_t n = 0; n < N; ++n)
      for (size_t i = 0; i < F; ++i) {
        const size_t at = n * width + i;
        const double slope = slope_of(x[at], kind);
        value[at] = dy[n * F + i] * textbook::answer::curve(x[at], kind).y * (gated ? x[at + F] : 1);
        ungated[at] = dy[n * F + i] * slope;
        undriven[at] = g[0][at] / dy[n * F + i];
        if (gated) plain[at + F] = dy[n * F + i] * x[at], sloped[at + F] = dy[n * F + i] * slope;
        if (gated) undriven[at + F] = g[0][at + F] / dy[n * F + i];
        if (gated) swapped[at] = g[0][at + F], swapped[at + F] = g[0][at];
      }
    const std::vector<Mistake> mistakes = {{"f(x) instead of its slope f'(x)", value},
                                           {"the gate's gradient lacks the factor up", ungated},
                                           {"the gradients of gate and up are the wrong way round", swapped},
                                           {"up is multiplied by f(gate), not by gate", plain},
                                           {"up is multiplied by f(gate), not by its slope", sloped},
                                           {"the factor dy is missing", undriven}};
    Output dx{{{"dx", {{"n", N}, {"i", F}}}}, How::written, g[0], {}, mistakes, {}};
    if (gated) dx.views = {{"dgate", {{"n", N, width}, {"i", F, 1}}}, {"dup", {{"n", N, width}, {"i", F, 1}}, F}};
    const Guarded in_dy(dy), in_x(x);
    judge.test(std::string(name_of(kActivations, kind)) + " · N=3 F=4", {{"2", 2}}, {dx}, [&](auto out) {
      textbook::activation_backward<double>(out[0], in_dy.data(), in_x.data(), kind, N, F);
    });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"curve", curve}, {"activation", backward}};

}  // namespace exercise
