#include "layers/norm/norm.hpp"

#include "check.hpp"
#include "reference.hpp"

namespace {

constexpr double kTolerance = 1e-6;  // measured: at most 5.4e-7

struct Data {
  int N, C;
  NormKind kind;
  float eps;
  std::vector<float> x, gain, bias, dy;
  Norm p() { return {kind, eps, gain.data(), bias.empty() ? nullptr : bias.data()}; }
};

struct Result {
  std::vector<float> y, dx, dgain, dbias;
  std::vector<float> all() const { return joined({y, dx, dgain, dbias}); }
};

Result run(Data d, int backwards = 1) {
  Result r{garbage(d.x.size()), garbage(d.x.size()), std::vector<float>(d.C),
           std::vector<float>(d.bias.size())};
  std::vector<float> mean = garbage(d.N), rstd = garbage(d.N);
  const NormSaved saved{d.kind == NormKind::layernorm ? mean.data() : nullptr, rstd.data()};
  CHECK(norm_forward(r.y.data(), saved, d.x.data(), d.p(), d.N, d.C, true) == r.y.data());
  const Norm g{d.kind, d.eps, r.dgain.data(), d.bias.empty() ? nullptr : r.dbias.data()};
  for (int i = 0; i < backwards; ++i)
    CHECK(norm_backward(r.dx.data(), g, d.dy.data(), d.x.data(), saved, d.p(), d.N, d.C) == r.dx.data());
  return r;
}

Data made_up(NormKind kind, int N, int C, bool bias) {
  return {N,
          C,
          kind,
          1e-5f,
          random_floats(N * C, 1, .5f, 1),
          random_floats(C, 2, 1, .3f),
          random_floats(bias ? C : 0, 3, 0, .1f),
          random_floats(N * C, 4)};
}

}  // namespace

TEST_CASE("norms agree with PyTorch", "[norm]") {
  for (const std::string& name : Reference::cases("norm")) {
    const Reference ref("norm", name);
    Data d{ref.integer("N"),
           ref.integer("C"),
           ref.integer("rms") ? NormKind::rmsnorm : NormKind::layernorm,
           static_cast<float>(ref.number("eps")),
           ref.floats("x"),
           ref.floats("gain"),
           {},
           ref.floats("dy")};
    const bool bias = ref.integer("bias");
    if (bias) d.bias = ref.floats("bias");
    const std::string at = "norm/" + name + "/";
    for (const int times_run : {1, 2}) {  // the second backward adds the same again
      const Result r = run(d, times_run);
      check_close(at + "y", r.y, ref.doubles("y"), kTolerance);
      check_close(at + "dx", r.dx, ref.doubles("dx"), kTolerance, ref.scale("dx"));
      check_close(at + "dgain", r.dgain, times(times_run, ref.doubles("dgain")), kTolerance,
                  ref.scale("dgain"));
      if (bias)
        check_close(at + "dbias", r.dbias, times(times_run, ref.doubles("dbias")), kTolerance,
                    ref.scale("dbias"));
    }
  }
}

TEST_CASE("norms are the same for any number of threads", "[norm]") {
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm})
    for (const auto& [N, C] : {std::array{500, 33}, {7, 2000}})
      check_same_for_all_threads([&, N = N, C = C] { return run(made_up(kind, N, C, true), 2).all(); });
}

TEST_CASE("an absent norm is the identity and writes nothing", "[norm]") {
  std::vector<float> x = random_floats(21, 1), y = garbage(21);
  CHECK(norm_forward(y.data(), {}, x.data(), {}, 3, 7, true) == x.data());
  CHECK(norm_backward(y.data(), {}, x.data(), nullptr, {}, {}, 3, 7) == x.data());
  CHECK(same_bits(y, garbage(21)));
}

TEST_CASE("LayerNorm does not cancel if the mean is large", "[norm]") {
  // The variance is 2/3. In float, E[x²] − μ² would be 2, 0 and −128.
  for (const float a : {4096.f, 10000.f, 40000.f}) {
    const Result r = run({1, 3, NormKind::layernorm, 0, {a, a + 1, a + 2}, {1, 1, 1}, {}, {1, 0, 0}});
    for (int c = 0; c < 3; ++c) CHECK(r.y[c] == Approx((c - 1) * std::sqrt(1.5)).epsilon(1e-6));
    CHECK(r.dx[1] == Approx(-std::sqrt(1.5) / 3).epsilon(1e-6));
  }
}

TEST_CASE("a norm with one channel or one row", "[norm]") {
  Data d = made_up(NormKind::layernorm, 7, 1, true);
  Result r = run(d);
  for (int n = 0; n < 7; ++n) {
    CHECK(r.y[n] == d.bias[0]);       // x − μ = 0
    CHECK(std::abs(r.dx[n]) < 1e-4);  // r = 316 times a rounding error
  }
  d = made_up(NormKind::rmsnorm, 1, 1, false);
  d.eps = 0;
  r = run(d);
  CHECK(r.y[0] == Approx(std::copysign(d.gain[0], d.x[0])));
  CHECK(std::abs(r.dx[0]) < 1e-6);
}
