// Certifies the textbook layers (layers/textbook/) without PyTorch: the backward pass in double agrees with the complex
// step of the forward pass, element by element.

#include <array>

#include "layers/textbook/cross_attention.hpp"
#include "layers/textbook/ngpt.hpp"
#include "norm_layer.hpp"
#include "sources.hpp"
#include "textbook.hpp"

namespace {

using Complex = std::complex<double>;
template <class T>
using number_of = typename std::decay_t<T>::value_type::value_type;  // the Number of Tensors<Number>

// CHECKs that `gradients` are the derivatives of Σ dy·y by each input, with y = forward(inputs). Each element of each
// input takes an imaginary step in turn, so `forward` must accept real and complex numbers.
template <class Forward>
void certify(const std::string& name, const Tensors<double>& inputs, const Tensors<double>& gradients,
             const Doubles& dy, Forward forward) {
  constexpr double h = 1e-50, kCertified = 1e-14;
  Tensors<Complex> z;
  for (const Doubles& input : inputs) z.emplace_back(input.begin(), input.end());
  REQUIRE(inputs.size() == gradients.size());
  for (size_t t = 0; t < z.size(); ++t) {
    REQUIRE(z[t].size() == gradients[t].size());
    double difference = 0, size = 0;
    for (size_t k = 0; k < z[t].size(); ++k) {
      z[t][k] = Complex(inputs[t][k], h);
      const std::vector<Complex> y = forward(z);
      z[t][k] = inputs[t][k];
      REQUIRE(y.size() == dy.size());
      double slope = 0;
      for (size_t i = 0; i < y.size(); ++i) slope += dy[i] * y[i].imag() / h;
      difference += std::pow(slope - gradients[t][k], 2);
      size += std::pow(slope, 2);
    }
    const double error = difference == 0 ? 0 : std::sqrt(difference / size);
    check_error("complex step/" + name + "/input " + std::to_string(t), error, kCertified);
  }
}

}  // namespace

TEST_CASE("textbook embedding and learned position are certified", "[textbook]") {
  const int B = 2, T = 5, N = B * T, V = 4, C = 3;
  const std::vector<int> tokens = random_ints(N, 1, V);
  const Doubles dy = random_doubles(N * C, 2);
  const Tensors<double> weights = {random_doubles(V * C, 3), random_doubles(T * C, 4)};
  Tensors<double> g = {Doubles(V * C), Doubles(T * C)};
  textbook::embedding_backward(g[0].data(), tokens.data(), dy.data(), N, C, 1.7);
  textbook::learned_position_backward(g[1].data(), dy.data(), textbook::positions(B, T), C);
  certify("embedding", weights, g, dy, [&](const auto& w) {
    std::vector<number_of<decltype(w)>> x(N * C);
    textbook::embedding_forward(x.data(), tokens.data(), w[0].data(), N, C, 1.7);
    textbook::learned_position_forward(x.data(), w[1].data(), textbook::positions(B, T), C);
    return x;
  });
}

TEST_CASE("textbook unit rows are certified", "[textbook]") {
  const int V = 4, C = 7;
  const Tensors<double> weight = {random_doubles(V * C, 1)};
  const Doubles dunit = random_doubles(V * C, 2);
  Doubles dweight(V * C);
  textbook::unit_rows_backward(dweight.data(), dunit.data(), weight[0].data(), V, C);
  certify("unit rows", weight, {dweight}, dunit, [&](const auto& w) {
    std::vector<number_of<decltype(w)>> unit(V * C);
    textbook::unit_rows_forward(unit.data(), w[0].data(), V, C);
    return unit;
  });
}

TEST_CASE("textbook steps on the sphere are certified", "[textbook]") {
  const int N = 3, C = 7;
  const Tensors<double> in = {random_doubles(N * C, 1), random_doubles(N * C, 2), random_doubles(C, 3)};
  const Doubles dy = random_doubles(N * C, 4);
  Doubles dx(N * C), df(N * C), da(C);
  const auto rate = [](auto& a) {
    return textbook::EigenRate<typename std::decay_t<decltype(a)>::value_type>{a.data(), 1.7};
  };
  Doubles a = in[2];
  textbook::sphere_backward(dx.data(), df.data(), rate(da), dy.data(), in[0].data(), in[1].data(), rate(a), {N, C});
  // The gradient of a has a's sign from the rate of the parameters.
  certify("sphere", in, {dx, df, da}, dy, [&](auto w) {
    std::vector<number_of<decltype(w)>> y(N * C);
    textbook::sphere_forward(y.data(), w[0].data(), w[1].data(), rate(w[2]), {N, C});
    return y;
  });
}

TEST_CASE("textbook unit heads and scaled rows are certified", "[textbook]") {
  const int N = 3, H = 2, D = 5, stride = H * D + 4;
  const Tensors<double> in = {random_doubles(N * stride, 1), random_doubles(H * D, 2)};
  const Doubles dy = random_doubles(N * stride, 3);
  Doubles y = in[0], d = dy, da(H * D);
  textbook::UnitHeads<double> saved;
  textbook::unit_heads_forward(y.data(), saved, in[1].data(), 1.7, {N, H, D, stride});
  textbook::unit_heads_backward(d.data(), da.data(), saved, in[1].data(), 1.7, {N, H, D, stride});
  certify("unit heads", in, {d, da}, dy, [&](const auto& w) {
    using Number = number_of<decltype(w)>;
    std::vector<Number> out = w[0];
    textbook::UnitHeads<Number> heads;
    textbook::unit_heads_forward(out.data(), heads, w[1].data(), 1.7, {N, H, D, stride});
    return out;
  });

  const int V = 4, C = 6;
  const Tensors<double> rows = {random_doubles(V * C, 4), random_doubles(V, 5)};
  const Doubles dout = random_doubles(V * C, 6);
  Doubles dweight(V * C), dgain(V);
  textbook::scaled_rows_backward(dweight.data(), dgain.data(), dout.data(), rows[0].data(), rows[1].data(), 1.7, V, C);
  certify("scaled rows", rows, {dweight, dgain}, dout, [&](const auto& w) {
    std::vector<number_of<decltype(w)>> out(V * C);
    textbook::scaled_rows_forward(out.data(), w[0].data(), w[1].data(), 1.7, V, C);
    return out;
  });
}

TEST_CASE("textbook RoPE is certified", "[textbook]") {
  const int B = 2, T = 5, heads = 3, D = 6, stride = heads * D + 5;
  const Tensors<double> x = {random_doubles(B * T * stride, 1)};
  const Doubles dy = random_doubles(x[0].size(), 2);
  for (const int R : {6, 4, 2}) {
    Doubles dx = dy;
    textbook::rope_backward(dx.data(), {100, size_t(R)}, textbook::positions(B, T), heads, D, stride);
    certify("rope", x, {dx}, dy, [&](const auto& in) {
      auto y = in[0];
      textbook::rope_forward(y.data(), {100, size_t(R)}, textbook::positions(B, T), heads, D, stride);
      return y;
    });
  }
}

TEST_CASE("textbook norms are certified", "[textbook]") {
  for (const auto& [N, C] : {std::array{1, 7}, {5, 17}, {3, 2}})
    for (const auto& [kind, kind_name] : kNormKinds)
      for (const bool bias : {true, false})
        for (const bool offset : {true, false}) {
          if (bias && kind == NormKind::scalenorm) continue;
          if (offset && !norm_row(kind).row_norm) continue;
          if (N == 1 && kind == NormKind::batchnorm) continue;  // everything is 0
          const Config config = norm_config(kind, bias, .1f, offset);
          const NormLayer layer(config, N, C);
          Tensors<double> in, g;
          for (const TensorSpec& spec : layer.table)
            in.push_back(widen(layer.weight(spec))), g.emplace_back(spec.size());
          in.push_back(random_doubles(N * C, 1, .5f)), g.emplace_back(N * C);
          const auto forward = [&, N = N, C = C](auto& saved, auto& t, auto&& p) {
            std::vector<number_of<decltype(t)>> y(N * C);
            textbook::norm_forward(y.data(), saved, t.back().data(), p, N, C);
            return y;
          };
          const Doubles dy = random_doubles(N * C, 4);
          textbook::NormSaved<double> saved;
          forward(saved, in, textbook_norm(config, in));
          const Tensors<double> before = in;
          textbook::norm_backward(g.back().data(), textbook_norm(config, g), dy.data(), in.back().data(), saved,
                                  textbook_norm(config, in), N, C);
          for (size_t t = 0; t < layer.table.size(); ++t) CHECK((in[t] == before[t]) == layer.table[t].trained);
          certify(std::string("norm ") + kind_name, before, g, dy, [&](auto& t) {
            textbook::NormSaved<number_of<decltype(t)>> unused;
            return forward(unused, t, textbook_norm(config, t));
          });
        }
}

TEST_CASE("textbook linear is certified", "[textbook]") {
  const int N = 5, I = 7, O = 3;
  for (const bool bias : {true, false}) {
    Tensors<double> in = {random_doubles(N * I, 1), random_doubles(O * I, 2)};
    Tensors<double> g = {Doubles(N * I), Doubles(O * I)};
    if (bias) in.push_back(random_doubles(O, 3)), g.emplace_back(O);
    const Doubles dy = random_doubles(N * O, 4);
    textbook::linear_backward(g[0].data(), g[1].data(), bias ? g[2].data() : nullptr, dy.data(), in[0].data(),
                              in[1].data(), {N, I, O});
    certify("linear", in, g, dy, [&](const auto& t) {
      std::vector<number_of<decltype(t)>> y(N * O);
      textbook::linear_forward(y.data(), t[0].data(), t[1].data(), bias ? t[2].data() : nullptr, {N, I, O});
      return y;
    });
  }
}

TEST_CASE("textbook attention is certified", "[textbook]") {
  const int B = 2, T = 5, D = 3;
  for (const auto& [H, KV] : {std::array{1, 1}, {2, 2}, {4, 2}, {3, 1}})
    for (const bool dropout : {false, true}) {
      const Tensors<double> in = {random_doubles(B * T * (H + 2 * KV) * D, 1)};
      const Doubles dy = random_doubles(B * T * H * D, 2), m = random_doubles(B * H * T * T, 3);
      const std::vector<Complex> complex_m(m.begin(), m.end());
      Doubles out(dy.size()), P(m.size()), g(in[0].size());
      const double* multiplier = dropout ? m.data() : nullptr;
      const textbook::AttentionShape shape{B, T, size_t(H), size_t(KV), D};
      textbook::attention_forward(out.data(), P.data(), in[0].data(), multiplier, shape);
      textbook::attention_backward(g.data(), dy.data(), P.data(), in[0].data(), multiplier, shape);
      certify("attention", in, {g}, dy, [&](const auto& t) {
        std::vector<Complex> y(dy.size()), p(m.size());
        textbook::attention_forward(y.data(), p.data(), t[0].data(), dropout ? complex_m.data() : nullptr, shape);
        return y;
      });
    }
}

TEST_CASE("textbook attention with scale, cap, ALiBi and window is certified", "[textbook]") {
  const int B = 2, T = 7, H = 3, KV = 1, D = 3;
  const textbook::AttentionShape shape{B, T, H, KV, D};
  const Tensors<double> in = {random_doubles(B * T * (H + 2 * KV) * D, 1)};
  const Doubles dy = random_doubles(B * T * H * D, 2);
  for (const auto& [name, scoring] : scorings(H, 3)) {
    Doubles out(dy.size()), P(B * H * T * T), g(in[0].size());
    textbook::attention_forward<double>(out.data(), P.data(), in[0].data(), nullptr, shape, scoring);
    textbook::attention_backward<double>(g.data(), dy.data(), P.data(), in[0].data(), nullptr, shape, scoring);
    certify("attention " + name, in, {g}, dy, [&, &scoring = scoring](const auto& t) {
      std::vector<Complex> y(dy.size()), p(B * H * T * T);
      textbook::attention_forward<Complex>(y.data(), p.data(), t[0].data(), nullptr, shape, scoring);
      return y;
    });
  }
}

TEST_CASE("textbook attention with sinks is certified", "[textbook]") {
  const int B = 2, T = 7, H = 4, KV = 2, D = 3;
  const textbook::AttentionShape shape{B, T, H, KV, D};
  const Tensors<double> in = {random_doubles(B * T * (H + 2 * KV) * D, 1), random_doubles(H, 4)};
  const Doubles dy = random_doubles(B * T * H * D, 2), m = random_doubles(B * H * T * T, 3);
  const std::vector<Complex> complex_m(m.begin(), m.end());
  for (const auto& [name, scoring] : scorings(H, 3)) {
    Doubles out(dy.size()), P(m.size()), g(in[0].size()), dsinks(H);
    textbook::attention_forward(out.data(), P.data(), in[0].data(), m.data(), shape, scoring, in[1].data());
    textbook::attention_backward(g.data(), dy.data(), P.data(), in[0].data(), m.data(), shape, scoring);
    textbook::sinks_backward(dsinks.data(), dy.data(), out.data(), P.data(), shape, T);
    certify("attention with sinks " + name, in, {g, dsinks}, dy, [&, &scoring = scoring](const auto& t) {
      std::vector<Complex> y(dy.size()), p(m.size());
      textbook::attention_forward(y.data(), p.data(), t[0].data(), complex_m.data(), shape, scoring, t[1].data());
      return y;
    });
  }
}

TEST_CASE("cross attention is certified", "[attention][cross][textbook]") {
  const size_t H = 4, KV = 2, D = 3;
  const Sources sources = random_sources(2, 3, 4, 5);
  const Tensors<double> in = {random_doubles(2 * 3 * H * D, 1), random_doubles(2 * 4 * 2 * KV * D, 2),
                              random_doubles(H, 5)};
  const Doubles dy = random_doubles(in[0].size(), 3), m = random_doubles(2 * H * 3 * 4, 4);
  const std::vector<Complex> complex_m(m.begin(), m.end());
  for (const double cap : {0., 2.}) {
    const textbook::CrossShape shape = {2, 3, 4, H, KV, D, sources.from.data(), sources.to.data(), {.75, cap}};
    Doubles out(dy.size()), P(m.size()), dq(in[0].size()), dkv(in[1].size()), dsinks(H);
    textbook::cross_attention_forward(out.data(), P.data(), in[0].data(), in[1].data(), m.data(), shape,
                                      in[2].data());
    textbook::cross_attention_backward(dq.data(), dkv.data(), dy.data(), P.data(), in[0].data(), in[1].data(),
                                       m.data(), shape);
    textbook::sinks_backward(dsinks.data(), dy.data(), out.data(), P.data(), {2, 3, H, KV, D}, 4);
    certify(cap > 0 ? "cross attention with a cap" : "cross attention", in, {dq, dkv, dsinks}, dy, [&](const auto& t) {
      std::vector<Complex> y(dy.size()), p(m.size());
      textbook::cross_attention_forward(y.data(), p.data(), t[0].data(), t[1].data(), complex_m.data(), shape,
                                        t[2].data());
      return y;
    });
  }
}

TEST_CASE("textbook cap of the logits is certified", "[textbook]") {
  const Tensors<double> x = {random_doubles(17, 1, 0, 2)};
  const Doubles dy = random_doubles(17, 2);
  Doubles dx(17);
  textbook::soft_cap_backward(dx.data(), dy.data(), x[0].data(), 1.5, 17);
  certify("cap", x, {dx}, dy, [&](const auto& t) {
    auto y = t[0];
    textbook::soft_cap_forward(y.data(), t[0].data(), 1.5, 17);
    return y;
  });
}

TEST_CASE("textbook activations are certified", "[textbook]") {
  const int N = 5, F = 17;
  for (const auto& entry : kActivations) {
    const Activation kind = entry.value;
    const Tensors<double> x = {random_doubles(N * width_of(kind, F), 1, 0, 1.3f)};
    const Doubles dy = random_doubles(N * F, 2);
    Doubles dx(x[0].size());
    textbook::activation_backward(dx.data(), dy.data(), x[0].data(), kind, N, F);
    certify(entry.name, x, {dx}, dy, [&](const auto& t) {
      std::vector<number_of<decltype(t)>> y(N * F);
      textbook::activation_forward(y.data(), t[0].data(), kind, N, F);
      return y;
    });
  }
}

TEST_CASE("textbook dropout is certified", "[textbook]") {
  const int n = 17;
  const Tensors<double> x = {random_doubles(n, 1)};
  const Doubles m = random_doubles(n, 2), dy = random_doubles(n, 3);
  const std::vector<Complex> complex_m(m.begin(), m.end());
  Doubles dx = dy;
  textbook::dropout_backward(dx.data(), m.data(), n);
  certify("dropout", x, {dx}, dy, [&](const auto& t) {
    auto y = t[0];
    textbook::dropout_forward(y.data(), complex_m.data(), n);
    return y;
  });
}

TEST_CASE("textbook residual branch is certified for every placement", "[textbook]") {
  const size_t N = 3, C = 7;
  for (const Placement& row : placements()) {
    if (row.streams != StreamRule::single) continue;  // test_streams.cpp certifies these
    Tensors<double> in = {random_doubles(N * C, 1)}, g = {Doubles(N * C)};
    for (int i = 1; i <= 7; ++i) in.push_back(random_doubles(C, i + 1, 1, .3f)), g.emplace_back(C);
    const Doubles dy = random_doubles(N * C, 9);
    const auto forward = [&](auto& saved, auto& t) {
      using Number = number_of<decltype(t)>;
      std::vector<Number> y(N * C);
      textbook::branch_forward(y.data(), saved, t[0].data(), branch_of(row, t), Neighbors<Number>{N, C}, {N, C});
      return y;
    };
    textbook::BranchSaved<double> saved;
    forward(saved, in);
    textbook::branch_backward(g[0].data(), branch_of(row, g), dy.data(), in[0].data(), saved, branch_of(row, in),
                              Neighbors<double>{N, C}, {N, C});
    certify(std::string("branch ") + row.name, in, g, dy, [&](auto& t) {
      textbook::BranchSaved<Complex> unused;
      return forward(unused, t);
    });
  }
}

// The complex step of a stop-gradient is 0: see number.hpp. Without it ds would be (1 − SiLU(g))·dy.
TEST_CASE("textbook GPAS is certified", "[textbook]") {
  const size_t N = 3, C = 7;
  for (const double gate : {0., .8, -1.7}) {
    Tensors<double> in = {random_doubles(N * C, 1), {gate}};
    const Doubles dy = random_doubles(N * C, 9);
    Tensors<double> g = {dy, {0}};
    const auto forward = [&](auto& t) {
      using Number = number_of<decltype(t)>;
      std::vector<Number> y(N * C);
      textbook::gpas_forward(y.data(), t[0].data(), textbook::Gpas<Number>{t[1].data()}, N, C);
      return y;
    };
    const Doubles y = forward(in);
    for (size_t i = 0; i < N * C; ++i) CHECK(y[i] == Approx((1 - gate / (1 + std::exp(-gate))) * in[0][i]));
    textbook::gpas_backward({g[1].data()}, dy.data(), in[0].data(), textbook::Gpas<double>{in[1].data()}, N, C);
    certify("gpas", in, g, dy, forward);
  }
}

TEST_CASE("textbook skip gain is certified", "[textbook]") {
  const size_t N = 3, C = 7;
  Tensors<double> in = {random_doubles(N * C, 1), random_doubles(C, 2, 1, .3f)};
  const Doubles dy = random_doubles(N * C, 9);
  Tensors<double> g = {Doubles(N * C), Doubles(C)};
  const auto pass = [&](auto& of_gain, auto& t) {
    using Number = number_of<decltype(t)>;
    static const Neighbors<Number> F{N, C};
    return textbook::SkipGain<Number, const Neighbors<Number>>{F, {t[1].data()}, {of_gain.data()}, 1.7, .6, N, C};
  };
  pass(g[1], in).backward(g[0].data(), dy.data(), in[0].data());
  certify("skip gain", in, g, dy, [&](auto& t) {
    std::vector<Complex> f(N * C), unused(C);
    pass(unused, t).forward(f.data(), t[0].data());
    return f;
  });
}

TEST_CASE("textbook parallel branches are certified with two norms and with a shared one", "[textbook]") {
  const size_t N = 3, C = 7;
  for (const bool shared : {false, true}) {
    Tensors<double> in = {random_doubles(N * C, 1)}, g = {Doubles(N * C)};
    for (int i = 1; i <= 4; ++i) in.push_back(random_doubles(C, i + 1, 1, .3f)), g.emplace_back(C);
    const Doubles dy = random_doubles(N * C, 9);
    const auto branches = [&](auto& t) {
      using Number = number_of<decltype(t)>;
      textbook::Branch<Number> first, second;
      first.norm_in = {NormKind::layernorm, .1, t[1].data(), t[2].data()};
      second.norm_in =
          shared ? first.norm_in : textbook::Norm<Number>{NormKind::layernorm, .1, t[3].data(), t[4].data()};
      first.skip = 1.7, first.in_scale = second.in_scale = .6;
      return std::pair{first, second};
    };
    const auto forward = [&](auto& saved, auto& t) {
      using Number = number_of<decltype(t)>;
      std::vector<Number> y(N * C);
      const std::pair F(Neighbors<Number>{N, C}, Neighbors<Number>{N, C});
      textbook::parallel_forward(y.data(), saved, t[0].data(), branches(t), F, {N, C});
      return y;
    };
    textbook::TwoSaved<double> saved;
    forward(saved, in);
    const std::pair F(Neighbors<double>{N, C}, Neighbors<double>{N, C});
    textbook::parallel_backward(g[0].data(), branches(g), dy.data(), in[0].data(), saved, branches(in), F, {N, C});
    certify(std::string("parallel branches, ") + (shared ? "one norm" : "two norms"), in, g, dy, [&](auto& t) {
      textbook::TwoSaved<Complex> unused;
      return forward(unused, t);
    });
  }
}

TEST_CASE("textbook QK-norm is certified", "[textbook]") {
  const int N = 3, stride = 17;
  for (const auto& [count, width] : {std::array{3, 4}, {1, 12}})
    for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm}) {
      const Tensors<double> in = {random_doubles(N * stride, 1), random_doubles(width, 2, 1, .3f),
                                  random_doubles(width, 3, 0, .1f)};
      Tensors<double> g = {random_doubles(N * stride, 4), Doubles(width), Doubles(width)}, at = in;
      const Doubles dy = g[0];
      const auto norm = [&](auto& t) {
        return textbook::Norm<number_of<decltype(t)>>{kind, .1, t[1].data(), t[2].data()};
      };
      const auto forward = [&, count = count, width = width](auto& saved, auto t) {
        textbook::qk_norm_forward(t[0].data(), saved, norm(t), N, count, width, stride);
        return t[0];
      };
      textbook::QkNormSaved<double> saved;
      forward(saved, in);
      textbook::qk_norm_backward(g[0].data(), norm(g), saved, norm(at), N, count, width, stride);
      certify("qk-norm", in, g, dy, [&](const auto& t) {
        textbook::QkNormSaved<Complex> unused;
        return forward(unused, t);
      });
    }
}

TEST_CASE("textbook cross-entropy is certified", "[textbook]") {
  const int N = 5, V = 7;
  const std::vector<int> targets = {3, kIgnore, 0, 6, 3};
  const Tensors<double> logits = {random_doubles(N * V, 1, 0, 2)};
  Doubles g(N * V);
  textbook::cross_entropy_backward(g.data(), logits[0].data(), targets.data(), .7, N, V);
  certify("cross-entropy", logits, {g}, Doubles(N, .7), [&](const auto& t) {
    std::vector<number_of<decltype(t)>> losses(N);
    textbook::cross_entropy_forward(losses.data(), t[0].data(), targets.data(), N, V);
    return losses;
  });
}

TEST_CASE("textbook z-loss is certified", "[textbook]") {
  const int N = 5, V = 7;
  const std::vector<int> targets = {3, kIgnore, 0, 6, 3};
  const Tensors<double> logits = {random_doubles(N * V, 1, 0, 2)};
  Doubles g(N * V);
  textbook::z_loss_backward(g.data(), logits[0].data(), targets.data(), .1, .7, N, V);
  certify("z-loss", logits, {g}, Doubles(N, .7), [&](const auto& t) {
    using Number = number_of<decltype(t)>;
    std::vector<Number> losses(N);
    textbook::z_loss_forward(losses.data(), t[0].data(), targets.data(), Number(.1), N, V);
    return losses;
  });
}

TEST_CASE("textbook label smoothing is certified", "[textbook]") {
  const int N = 5, V = 7;
  const std::vector<int> targets = {3, kIgnore, 0, 6, 3};
  const Tensors<double> logits = {random_doubles(N * V, 1, 0, 2)};
  Doubles g(N * V);
  textbook::smoothing_backward(g.data(), targets.data(), .1, .7, N, V);
  certify("label smoothing", logits, {g}, Doubles(N, .7), [&](const auto& t) {
    std::vector<number_of<decltype(t)>> losses(N);
    textbook::smoothing_forward(losses.data(), t[0].data(), targets.data(), .1, N, V);
    return losses;
  });
}

TEST_CASE("the power series of erf agrees with the standard library", "[textbook]") {
  for (double x = -6; x <= 6; x += .01) {
    CHECK(textbook::erf(Complex(x)).real() == Approx(std::erf(x)).epsilon(1e-13));
    CHECK(textbook::erf(Complex(x)).imag() == 0);
  }
}
