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

void curve(Judge& judge) {
  const Doubles x = {-2.5, -1, -.3, .2, .8, 1.7};
  const size_t n = x.size();
  for (const auto kind : {Activation::relu, Activation::silu, Activation::gelu, Activation::gelu_tanh,
                          Activation::swiglu, Activation::geglu, Activation::geglu_tanh}) {
    Doubles f(n), slope(n);
    for (size_t i = 0; i < n; ++i) f[i] = textbook::answer::curve(x[i], kind).y, slope[i] = slope_of(x[i], kind);
    judge.test(std::string(name_of(kActivations, kind)) + " at x = -2.5 -1 -0.3 0.2 0.8 1.7", {{"2", 2}},
               {written("f", {{"i", n}}, f), written("f'", {{"i", n}}, slope)}, [&](auto out) {
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
    Doubles value = g[0], ungated = g[0], swapped = g[0];  // mistakes
    for (size_t n = 0; n < N; ++n)
      for (size_t i = 0; i < F; ++i) {
        const size_t at = n * width + i;
        const double slope = slope_of(x[at], kind);
        value[at] = dy[n * F + i] * textbook::answer::curve(x[at], kind).y * (gated ? x[at + F] : 1);
        ungated[at] = dy[n * F + i] * slope;
        if (gated) swapped[at] = g[0][at + F], swapped[at + F] = g[0][at];
      }
    const std::vector<Mistake> mistakes = {{"f(x) stands where its slope f'(x) belongs", value},
                                           {"the gate's gradient lacks the factor up", ungated},
                                           {"the gradients of gate and up are the wrong way round", swapped}};
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
