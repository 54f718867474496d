// The example of layers/feed_forward/activation.md.

#include "textbook.hpp"
#include "worked.hpp"

namespace {

Doubles forward(Activation kind, const Doubles& x, size_t N, size_t F) {
  Doubles y(N * F);
  textbook::activation_forward(y.data(), x.data(), kind, N, F);
  return y;
}

Doubles backward(Activation kind, const Doubles& dy, const Doubles& x, size_t N, size_t F) {
  Doubles dx(x.size());
  textbook::activation_backward(dx.data(), dy.data(), x.data(), kind, N, F);
  return dx;
}

template <class F>
Doubles each(Doubles x, F f) {
  for (double& v : x) v = f(v);
  return x;
}

double density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double inner(double x) { return std::sqrt(2 / std::numbers::pi) * (x + .044715 * x * x * x); }
double inner_slope(double x) { return std::sqrt(2 / std::numbers::pi) * (1 + 3 * .044715 * x * x); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The point at which two curves, or their slopes, differ most.
struct Furthest {
  double difference = 0, x = 0;
};
template <class F>
Furthest furthest(F f) {
  Furthest worst;
  for (double x = 0; x < 8; x += 1e-3) {
    const Doubles a = f(Activation::gelu, {x}), b = f(Activation::gelu_tanh, {x});
    if (const double d = std::fabs(a[0] - b[0]); d > worst.difference) worst = {d, x};
  }
  return worst;
}

}  // namespace

TEST_CASE("layers/feed_forward/activation.md is worked out right", "[worked][pages][activation]") {
  constexpr size_t N = 2, F = 3;
  WorkedPage page("feed_forward/activation");
  const Doubles x = page.numbers("x"), dy = page.numbers("dy");

  page.matches("Φ", each(x, [](double v) { return .5 * std::erfc(-v / std::sqrt(2)); }));
  page.matches("φ", each(x, density));
  page.matches("gelu", forward(Activation::gelu, x, N, F));
  page.matches("slope", backward(Activation::gelu, Doubles(N * F, 1), x, N, F));
  page.matches("dx", backward(Activation::gelu, dy, x, N, F));

  page.matches("u", each(x, inner));
  page.matches("tanh_u", each(x, [](double v) { return std::tanh(inner(v)); }));
  page.matches("du", each(x, inner_slope));
  page.matches("gelu_tanh", forward(Activation::gelu_tanh, x, N, F));
  page.matches("dx_tanh", backward(Activation::gelu_tanh, dy, x, N, F));
  const Furthest y = furthest([](Activation kind, const Doubles& at) { return forward(kind, at, 1, 1); });
  page.matches("furthest", Doubles{y.difference});
  page.matches("at_x", Doubles{y.x});
  page.matches(
      "steepest",
      Doubles{furthest([](Activation kind, const Doubles& at) { return backward(kind, {1}, at, 1, 1); }).difference});

  page.matches("relu", forward(Activation::relu, x, N, F));
  page.matches("dx_relu", backward(Activation::relu, dy, x, N, F));
  page.matches("σ", each(x, sigmoid));
  page.matches("silu", forward(Activation::silu, x, N, F));
  page.matches("dx_silu", backward(Activation::silu, dy, x, N, F));

  const Doubles gate_up = page.numbers("gate_up"), dy_glu = page.numbers("dy_glu");
  const Doubles gate(gate_up.begin(), gate_up.begin() + F);
  Doubles up_gate(gate_up.begin() + F, gate_up.end());
  up_gate.insert(up_gate.end(), gate.begin(), gate.end());
  page.matches("silu_gate", forward(Activation::silu, gate, 1, F));
  page.matches("swiglu", forward(Activation::swiglu, gate_up, 1, F));
  page.matches("dgate_dup", backward(Activation::swiglu, dy_glu, gate_up, 1, F));
  page.matches("swapped", forward(Activation::swiglu, up_gate, 1, F));
}
