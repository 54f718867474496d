// Norms against PyTorch, and LayerNorm and RMSNorm in extreme cases. test_norm_kinds.cpp tests all kinds further.

#include "norm_layer.hpp"
#include "reference.hpp"

constexpr double kTolerance = 1e-6;  // measured: at most 5.4e-7

// norm: LayerNorm and RMSNorm; norm_kinds: all kinds.
TEST_CASE("norms agree with PyTorch", "[norm]") {
  for (const std::string folder : {"norm", "norm_kinds"})
    for (const std::string& name : Reference::cases(folder)) {
      const Reference ref(folder, name);
      const NormKind kind = value_of(kNormKinds, "norm", name.substr(0, name.find('-')));
      const float eps = static_cast<float>(ref.number("eps"));
      const bool offset = folder == "norm_kinds" && ref.integer("offset");
      const Config config = norm_config(kind, ref.integer("bias"), eps, offset);
      for (const int times_run : {1, 2}) {  // the second backward adds the same again
        NormLayer norm(config, ref.integer("N"), ref.integer("C"));
        for (const TensorSpec& spec : norm.table) norm.set(spec, ref.floats(spec.name.substr(5)));
        const std::string at = folder + "/" + name + "/";
        const std::vector<float> x = ref.floats("x"), dy = ref.floats("dy");
        if (ref.has("evaluated"))
          check_close(at + "evaluated", norm.forward(x, false), ref.doubles("evaluated"), kTolerance);
        check_close(at + "y", norm.forward(x), ref.doubles("y"), kTolerance);
        for (int i = 1; i < times_run; ++i) norm.backward(dy, x);
        check_close(at + "dx", norm.backward(dy, x), ref.doubles("dx"), kTolerance, ref.scale("dx"));
        for (const TensorSpec& spec : norm.table) {
          const std::string tensor = spec.name.substr(5);
          if (spec.trained)
            check_close(at + "d" + tensor, norm.gradient(spec), times(times_run, ref.doubles("d" + tensor)), kTolerance,
                        sum_factor(spec.size()) * ref.scale("d" + tensor));
          else if (times_run == 1)
            check_close(at + tensor + " after", norm.weight(spec), ref.doubles(tensor + "_after"), kTolerance);
        }
      }
    }
}

TEST_CASE("norms are the same for any number of threads", "[norm]") {
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm})
    for (const auto& [N, C] : {std::array{500, 33}, {7, 2000}})
      check_same_for_all_threads([&, N = N, C = C] { return NormLayer(norm_config(kind, true), N, C).all(); });
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
    NormLayer norm(norm_config(NormKind::layernorm, false, 0), 1, 3);
    std::fill_n(norm.p.gain, 3, 1.f);
    const std::vector<float> x = {a, a + 1, a + 2}, y = norm.forward(x), dx = norm.backward({1, 0, 0}, x);
    for (int c = 0; c < 3; ++c) CHECK(y[c] == Approx((c - 1) * std::sqrt(1.5)).epsilon(1e-6));
    CHECK(dx[1] == Approx(-std::sqrt(1.5) / 3).epsilon(1e-6));
  }
}

TEST_CASE("a norm with one channel or one row", "[norm]") {
  const std::vector<float> x = random_floats(7, 1, .5f), dy = random_floats(7, 4);
  NormLayer channel(norm_config(NormKind::layernorm, true), 7, 1);
  const std::vector<float> y = channel.forward(x), dx = channel.backward(dy, x);
  for (int n = 0; n < 7; ++n) {
    CHECK(y[n] == channel.p.bias[0]);  // x − μ = 0
    CHECK(std::abs(dx[n]) < 1e-4);     // r = 316 times a rounding error
  }
  NormLayer row(norm_config(NormKind::rmsnorm, false, 0), 1, 1);
  CHECK(row.forward({x[0]})[0] == Approx(std::copysign(row.p.gain[0], x[0])));
  CHECK(std::abs(row.backward({dy[0]}, {x[0]})[0]) < 1e-6);
}
