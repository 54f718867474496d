#include "layers/feed_forward/activation.hpp"

#include "check.hpp"
#include "reference.hpp"

namespace {

constexpr double kTolerance = 1e-6;  // measured: at most 5.6e-7

struct Result {
  std::vector<float> y, dx;
};

Result run(Activation kind, const std::vector<float>& x, const std::vector<float>& dy, int N, int F) {
  Result r{garbage(dy.size()), garbage(x.size())};
  activation_forward(r.y.data(), x.data(), kind, N, F);
  activation_backward(r.dx.data(), dy.data(), x.data(), kind, N, F);
  return r;
}

int width(Activation kind, int F) { return is_gated(kind) ? 2 * F : F; }

constexpr Activation kPlain[] = {Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::relu2,
                                Activation::silu};

}  // namespace

TEST_CASE("activations agree with PyTorch", "[activation]") {
  for (const std::string& name : Reference::cases("activation")) {
    const Reference ref("activation", name);
    const Activation kind = value_of(kActivations, "activation", name);
    const Result r = run(kind, ref.floats("x"), ref.floats("dy"), ref.integer("N"), ref.integer("F"));
    check_close("activation/" + name + "/y", r.y, ref.doubles("y"), kTolerance);
    check_close("activation/" + name + "/dx", r.dx, ref.doubles("dx"), kTolerance, ref.scale("dx"));
  }
}

TEST_CASE("activations are the same for any number of threads", "[activation]") {
  const int N = 33, F = 97;
  for (const auto& [kind, name] : kActivations)
    check_same_for_all_threads([&, kind = kind] {
      const Result r = run(kind, random_floats(N * width(kind, F), 1), random_floats(N * F, 2), N, F);
      return joined({r.y, r.dx});
    });
}

TEST_CASE("activations work in place", "[activation]") {
  const int N = 7, F = 33;
  const std::vector<float> x = random_floats(N * F, 1), dy = random_floats(N * F, 2);
  for (const Activation kind : kPlain) {
    std::vector<float> dx = dy;
    activation_backward(dx.data(), dx.data(), x.data(), kind, N, F);
    CHECK(same_bits(dx, run(kind, x, dy, N, F).dx));
  }
}

TEST_CASE("activations of large inputs approach 0 and x", "[activation]") {
  const std::vector<float> x = {-1e4f, -100, 100, 1e4f}, dy = {1, 1, 1, 1};
  for (const Activation kind : kPlain) {
    const Result r = run(kind, x, dy, 1, 4);
    const bool square = kind == Activation::relu2;
    for (int i = 0; i < 4; ++i) {
      const float y = square ? x[i] * x[i] : x[i], slope = square ? 2 * x[i] : 1;
      CHECK(std::abs(r.y[i] - (x[i] > 0 ? y : 0)) <= 1e-6f * std::abs(y));
      CHECK(std::abs(r.dx[i] - (x[i] > 0 ? slope : 0)) <= 1e-6f * std::abs(slope));
    }
  }
}

TEST_CASE("the clamped gate is constant beyond its limits", "[activation]") {
  const Result r = run(Activation::swiglu_clamped, {7, 8, 1e9f, 1, 1, 1, -1e9f, 1, 1, 1, 7, 8, -7, -8, 1e9f, 1},
                       {1, 1, 1, 1, 1, 1, 1, 1}, 1, 8);
  const auto f = [](double gate) { return gate / (1 + std::exp(-1.702 * gate)); };
  const std::vector<double> gates = {7, 7, 7, 1, 1, 1, -1e9, 1}, factors = {2, 2, 8, 8, -6, -6, 8, 2};
  for (int i = 0; i < 8; ++i) CHECK(r.y[i] == Approx(f(gates[i]) * factors[i]).margin(1e-30));
  for (const int beyond : {1, 2, 6}) CHECK(r.dx[beyond] == 0);            // gates
  for (const int within : {0, 3, 4, 5, 7}) CHECK(r.dx[within] != 0);
  for (const int beyond : {11, 13, 14}) CHECK(r.dx[beyond] == 0);         // ups
  for (const int within : {8, 9, 10, 12, 15}) CHECK(r.dx[within] == Approx(f(gates[within - 8])));
}

// A derivative that divides by x would fail here.
TEST_CASE("activations at zero", "[activation]") {
  for (const auto& [kind, name] : kActivations) {
    INFO(name);
    const Result r = run(kind, std::vector<float>(width(kind, 1), 0.f), {1}, 1, 1);
    CHECK(r.y[0] == 0);
    if (kind == Activation::swiglu_clamped)  // y = f(gate)·(up + 1)
      CHECK(same_bits(r.dx, std::vector<float>{.5f, 0}));
    else if (is_gated(kind))
      CHECK(same_bits(r.dx, std::vector<float>{0, 0}));
    else
      CHECK(r.dx[0] == (kind == Activation::relu || kind == Activation::relu2 ? 0 : .5f));
  }
}
