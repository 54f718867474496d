// The layers without PyTorch, in two steps. Each textbook layer (layers/textbook/) is certified: its backward
// pass in double agrees with the complex step of its forward pass. Then the fast layer is held against it.

#include <array>
#include <complex>

#include "check.hpp"
#include "layers/activation.hpp"
#include "layers/cross_entropy.hpp"
#include "layers/embedding.hpp"
#include "layers/model.hpp"
#include "layers/optimizer.hpp"
#include "layers/textbook/activation.hpp"
#include "layers/textbook/adamw.hpp"
#include "layers/textbook/attention.hpp"
#include "layers/textbook/cross_entropy.hpp"
#include "layers/textbook/dropout.hpp"
#include "layers/textbook/embedding.hpp"
#include "layers/textbook/linear.hpp"
#include "layers/textbook/position.hpp"
#include "layers/textbook/residual.hpp"

// ---- certificates ----------------------------------------------------------------------------------------

namespace {

using Doubles = std::vector<double>;
using Complex = std::complex<double>;
template <class Number>
using Tensors = std::vector<std::vector<Number>>;
template <class T>
using number_of = typename std::decay_t<T>::value_type::value_type;  // the Number of Tensors<Number>

Doubles random_doubles(size_t n, uint64_t seed, float mean = 0, float deviation = 1) {
  return widen(random_floats(n, seed, mean, deviation));
}

// `gradients` claim to be those of Σ dy·y by each of the inputs, y = forward(inputs), which is a template of
// the number. Every element of every input takes a step of its own into the imaginary direction.
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

// f = F(u), f[n,c] = u[n,c]·u[n,c+1]: something that mixes channels, to put into a residual branch.
template <class Number>
struct Neighbours {
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

// Tensors 1, 2: gain and bias of norm_in; 3, 4: of norm_out; 5, 6: of norm_sum; where the placement has them.
template <class Number>
textbook::Branch<Number> branch_of(const Placement& row, Tensors<Number>& t, bool centred = true) {
  const auto norm = [&](bool there, size_t at) {
    return there ? textbook::Norm<Number>{centred, 1e-5, t[at].data(), t[at + 1].data()}
                 : textbook::Norm<Number>{};
  };
  return {norm(row.norm_in, 1), norm(row.norm_out, 3), norm(row.norm_sum, 5), 1.7};
}

constexpr Activation kKinds[] = {Activation::gelu, Activation::gelu_tanh, Activation::relu,
                                 Activation::swiglu};
int width_of(Activation kind, int F) { return kind == Activation::swiglu ? 2 * F : F; }

}  // namespace

TEST_CASE("textbook embedding and learned position are certified", "[textbook]") {
  const int B = 2, T = 5, N = B * T, V = 4, C = 3;
  const std::vector<int> tokens = random_ints(N, 1, V);
  const Doubles dy = random_doubles(N * C, 2);
  const Tensors<double> weights = {random_doubles(V * C, 3), random_doubles(T * C, 4)};
  Tensors<double> g = {Doubles(V * C), Doubles(T * C)};
  textbook::embedding_backward(g[0].data(), tokens.data(), dy.data(), N, C);
  textbook::learned_position_backward(g[1].data(), dy.data(), B, T, C);
  certify("embedding", weights, g, dy, [&](const auto& w) {
    std::vector<number_of<decltype(w)>> x(N * C);
    textbook::embedding_forward(x.data(), tokens.data(), w[0].data(), N, C);
    textbook::learned_position_forward(x.data(), w[1].data(), 0, B, T, C);
    return x;
  });
}

TEST_CASE("textbook RoPE is certified", "[textbook]") {
  const int B = 2, T = 5, heads = 3, D = 6, stride = heads * D + 5;
  const Tensors<double> x = {random_doubles(B * T * stride, 1)};
  const Doubles dy = random_doubles(x[0].size(), 2);
  Doubles dx = dy;
  textbook::rope_backward(dx.data(), 100, B, T, heads, D, stride);
  certify("rope", x, {dx}, dy, [&](const auto& in) {
    auto y = in[0];
    textbook::rope_forward(y.data(), 100, 0, B, T, heads, D, stride);
    return y;
  });
}

TEST_CASE("textbook norms are certified", "[textbook]") {
  for (const auto& [N, C] : {std::array{1, 7}, {5, 17}, {3, 2}})
    for (const bool centred : {true, false})
      for (const bool bias : {true, false}) {
        Tensors<double> in = {random_doubles(N * C, 1, .5f), random_doubles(C, 2, 1, .3f)};
        Tensors<double> g = {Doubles(N * C), Doubles(C)};
        if (bias) in.push_back(random_doubles(C, 3, 0, .1f)), g.emplace_back(C);
        const auto forward = [&, N = N, C = C](auto& saved, auto& t, auto&& p) {
          std::vector<number_of<decltype(t)>> y(N * C);
          textbook::norm_forward(y.data(), saved, t[0].data(), p, N, C);
          return y;
        };
        const auto norm = [&](auto& t) {
          return textbook::Norm<number_of<decltype(t)>>{centred, .1, t[1].data(),
                                                        bias ? t[2].data() : nullptr};
        };
        const Doubles dy = random_doubles(N * C, 4);
        textbook::NormSaved<double> saved;
        forward(saved, in, norm(in));
        textbook::norm_backward(g[0].data(), norm(g), dy.data(), in[0].data(), saved, norm(in), N, C);
        certify("norm", in, g, dy, [&](auto& t) {
          textbook::NormSaved<number_of<decltype(t)>> unused;
          return forward(unused, t, norm(t));
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
                              in[1].data(), N, I, O);
    certify("linear", in, g, dy, [&](const auto& t) {
      std::vector<number_of<decltype(t)>> y(N * O);
      textbook::linear_forward(y.data(), t[0].data(), t[1].data(), bias ? t[2].data() : nullptr, N, I, O);
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
      textbook::attention_forward(out.data(), P.data(), in[0].data(), multiplier, B, T, H, KV, D);
      textbook::attention_backward(g.data(), dy.data(), P.data(), in[0].data(), multiplier, B, T, H, KV, D);
      certify("attention", in, {g}, dy, [&, H = H, KV = KV](const auto& t) {
        std::vector<Complex> y(dy.size()), p(m.size());
        textbook::attention_forward(y.data(), p.data(), t[0].data(), dropout ? complex_m.data() : nullptr, B,
                                    T, H, KV, D);
        return y;
      });
    }
}

TEST_CASE("textbook activations are certified", "[textbook]") {
  const int N = 5, F = 17;
  for (const Activation kind : kKinds) {
    const Tensors<double> x = {random_doubles(N * width_of(kind, F), 1, 0, 1.3f)};
    const Doubles dy = random_doubles(N * F, 2);
    Doubles dx(x[0].size());
    textbook::activation_backward(dx.data(), dy.data(), x[0].data(), kind, N, F);
    certify(name_of(kActivations, kind), x, {dx}, dy, [&](const auto& t) {
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
    Tensors<double> in = {random_doubles(N * C, 1)}, g = {Doubles(N * C)};
    for (int i = 1; i <= 6; ++i) in.push_back(random_doubles(C, i + 1, 1, .3f)), g.emplace_back(C);
    const Doubles dy = random_doubles(N * C, 9);
    const auto forward = [&](auto& saved, auto& t) {
      using Number = number_of<decltype(t)>;
      std::vector<Number> y(N * C);
      textbook::branch_forward(y.data(), saved, t[0].data(), branch_of(row, t), Neighbours<Number>{N, C}, N,
                               C);
      return y;
    };
    textbook::BranchSaved<double> saved;
    forward(saved, in);
    textbook::branch_backward(g[0].data(), branch_of(row, g), dy.data(), in[0].data(), saved,
                              branch_of(row, in), Neighbours<double>{N, C}, N, C);
    certify(std::string("branch ") + row.name, in, g, dy, [&](auto& t) {
      textbook::BranchSaved<Complex> unused;
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

TEST_CASE("the power series of erf agrees with the standard library", "[textbook]") {
  for (double x = -6; x <= 6; x += .01) {
    CHECK(textbook::erf(Complex(x)).real() == Approx(std::erf(x)).epsilon(1e-13));
    CHECK(textbook::erf(Complex(x)).imag() == 0);
  }
}

// ---- the fast layers, held against the textbook ----------------------------------------------------------
// Gradients of parameters start from something, to which both add; all else starts as garbage.

namespace {

constexpr double kTolerance = 1e-6, kModelTolerance = 1e-5;
constexpr int kSizes[] = {1, 7, 17, 33};

std::string at(std::initializer_list<int> sizes) {
  std::string name;
  for (const int size : sizes) name += (name.empty() ? "/" : "x") + std::to_string(size);
  return name + "/";
}

}  // namespace

TEST_CASE("embedding and learned position agree with the textbook", "[embedding][textbook]") {
  const int V = 5, first = 2;
  for (const int T : kSizes)
    for (const int C : {1, 7, 33, 65}) {
      const int B = 3, N = B * T;
      const std::string name = "embedding vs textbook" + at({T, C});
      const std::vector<int> tokens = random_ints(N, 1, V);
      const std::vector<float> weight = random_floats(V * C, 2), position = random_floats((first + T) * C, 3),
                               dx = random_floats(N * C, 4);
      std::vector<float> x = garbage(N * C), dweight = random_floats(V * C, 5),
                         dposition = random_floats(T * C, 6);
      Doubles want(N * C), want_dweight = widen(dweight), want_dposition = widen(dposition);

      embedding_forward(x.data(), tokens.data(), weight.data(), N, C);
      learned_position_forward(x.data(), position.data(), first, B, T, C);
      textbook::embedding_forward(want.data(), tokens.data(), widen(weight).data(), N, C);
      textbook::learned_position_forward(want.data(), widen(position).data(), first, B, T, C);
      check_close(name + "x", x, want, kTolerance);

      embedding_backward(dweight.data(), tokens.data(), dx.data(), N, C);
      learned_position_backward(dposition.data(), dx.data(), B, T, C);
      textbook::embedding_backward(want_dweight.data(), tokens.data(), widen(dx).data(), N, C);
      textbook::learned_position_backward(want_dposition.data(), widen(dx).data(), B, T, C);
      check_close(name + "dweight", dweight, want_dweight, kTolerance);
      check_close(name + "dposition", dposition, want_dposition, kTolerance);
    }
}

TEST_CASE("RoPE agrees with the textbook", "[position][textbook]") {
  const int B = 2, gap = 3;  // floats behind the heads of a row, which are left alone
  for (const int T : kSizes)
    for (const int D : {2, 6, 34})
      for (const int heads : {1, 3}) {
        const std::string name = "rope vs textbook" + at({T, D, heads});
        const int stride = heads * D + gap;
        const RopeTable table(T + 5, D, 10000);
        const std::vector<float> x = random_floats(B * T * stride, 1);
        for (const int first : {0, 5}) {
          std::vector<float> y = x;
          Doubles want = widen(x);
          rope_forward(y.data(), table, first, B, T, heads, D, stride);
          textbook::rope_forward(want.data(), 10000, first, B, T, heads, D, stride);
          check_close(name + "y", y, want, kTolerance);
        }
        std::vector<float> dx = x;
        Doubles want = widen(x);
        rope_backward(dx.data(), table, B, T, heads, D, stride);
        textbook::rope_backward(want.data(), 10000, B, T, heads, D, stride);
        check_close(name + "dx", dx, want, kTolerance);
      }
}

namespace {

void compare_norms(NormKind kind, bool has_bias, int N, int C) {
  const bool centred = kind == NormKind::layernorm;
  const float eps = 1e-3f;
  const std::string name = std::string(name_of(kNormKinds, kind)) + " vs textbook" + at({N, C});
  const std::vector<float> x = random_floats(N * C, 1, .5f), dy = random_floats(N * C, 4);
  std::vector<float> gain = random_floats(C, 2, 1, .3f), bias = random_floats(C, 3, 0, .1f),
                     y = garbage(N * C), dx = garbage(N * C), dgain = random_floats(C, 5),
                     dbias = random_floats(C, 6), mean = garbage(N), rstd = garbage(N);
  Doubles p_gain = widen(gain), p_bias = widen(bias), want(N * C), want_dgain = widen(dgain),
          want_dbias = widen(dbias);

  const Norm p{kind, eps, gain.data(), has_bias ? bias.data() : nullptr};
  const Norm g{kind, eps, dgain.data(), has_bias ? dbias.data() : nullptr};
  const textbook::Norm<double> tp{centred, eps, p_gain.data(), has_bias ? p_bias.data() : nullptr};
  const textbook::Norm<double> tg{centred, eps, want_dgain.data(), has_bias ? want_dbias.data() : nullptr};
  const NormSaved saved{centred ? mean.data() : nullptr, rstd.data()};
  textbook::NormSaved<double> textbook_saved;

  CHECK(norm_forward(y.data(), saved, x.data(), p, N, C) == y.data());
  textbook::norm_forward(want.data(), textbook_saved, widen(x).data(), tp, N, C);
  check_close(name + "y", y, want, kTolerance);

  CHECK(norm_backward(dx.data(), g, dy.data(), x.data(), saved, p, N, C) == dx.data());
  textbook::norm_backward(want.data(), tg, widen(dy).data(), widen(x).data(), textbook_saved, tp, N, C);
  // Of one or few channels dx is what a near-total cancellation leaves: its error is held against its terms.
  double terms = 0;
  for (int i = 0; i < N * C; ++i) terms += std::pow(textbook_saved.rstd[i / C] * dy[i] * gain[i % C], 2);
  check_close(name + "dx", dx, want, kTolerance, 1e3 * std::sqrt(terms));
  check_close(name + "dgain", dgain, want_dgain, kTolerance);
  check_close(name + "dbias", dbias, want_dbias, kTolerance);

  std::vector<float> in_place = x;
  norm_forward(in_place.data(), saved, in_place.data(), p, N, C);
  CHECK(same_bits(in_place, y));
  in_place = dy;
  norm_backward(in_place.data(), g, in_place.data(), x.data(), saved, p, N, C);
  CHECK(same_bits(in_place, dx));
}

}  // namespace

TEST_CASE("norms agree with the textbook", "[norm][textbook]") {
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm})
    for (const bool bias : {true, false}) {
      for (const int N : kSizes)
        for (const int C : kSizes) compare_norms(kind, bias, N, C);
      compare_norms(kind, bias, 130, 200);
    }
}

namespace {

void compare_linear(bool has_bias, int N, int I, int O) {
  const std::string name = "linear vs textbook" + at({N, I, O});
  std::vector<float> weight = random_floats(O * I, 1), bias = random_floats(O, 2),
                     dweight = random_floats(O * I, 5), dbias = random_floats(O, 6), y = garbage(N * O),
                     dx = garbage(N * I);
  const std::vector<float> x = random_floats(N * I, 3), dy = random_floats(N * O, 4);
  const Linear p{weight.data(), has_bias ? bias.data() : nullptr},
      g{dweight.data(), has_bias ? dbias.data() : nullptr};
  const Doubles p_weight = widen(weight), p_bias = widen(bias);
  Doubles want(N * O), want_dx(N * I), want_dweight = widen(dweight), want_dbias = widen(dbias);

  linear_forward(y.data(), x.data(), p, N, I, O);
  textbook::linear_forward(want.data(), widen(x).data(), p_weight.data(), has_bias ? p_bias.data() : nullptr,
                           N, I, O);
  check_close(name + "y", y, want, kTolerance);

  linear_backward(dx.data(), g, dy.data(), x.data(), p, N, I, O);
  textbook::linear_backward(want_dx.data(), want_dweight.data(), has_bias ? want_dbias.data() : nullptr,
                            widen(dy).data(), widen(x).data(), p_weight.data(), N, I, O);
  check_close(name + "dx", dx, want_dx, kTolerance);
  check_close(name + "dweight", dweight, want_dweight, kTolerance);
  check_close(name + "dbias", dbias, want_dbias, kTolerance);
}

}  // namespace

TEST_CASE("linear agrees with the textbook", "[linear][textbook]") {
  for (const int N : kSizes)
    for (const int I : kSizes)
      for (const int O : kSizes) compare_linear((N + I + O) % 2 == 0, N, I, O);
  compare_linear(true, 13, 300, 3100);  // past the blocks of gemm in each of the three sizes
  compare_linear(true, 500, 260, 40);
  compare_linear(false, 270, 35, 500);
  compare_linear(true, 3, 3100, 270);
}

namespace {

// What the product's dropout multiplies attention's weights by, (B,H,T,T).
Doubles attention_multipliers(const Dropout& dropout, int layer, int B, int H, int T) {
  std::vector<float> m(B * H * T * T, 1);
  for (int row = 0; row < B * H * T; ++row) {
    const uint64_t i = row % T, h = row / T % H, b = row / T / H;
    if (dropout.p > 0)
      dropout_line(m.data() + row * T, dropout.key(b, layer, DropoutSite::attention, h << 32 | i), dropout.p,
                   0, T);
  }
  return widen(m);
}

// A slice of columns of x (rows, width).
template <class Number>
std::vector<Number> columns(const std::vector<Number>& x, int width, int begin, int end) {
  std::vector<Number> slice;
  for (size_t row = 0; row < x.size(); row += width)
    slice.insert(slice.end(), x.begin() + row + begin, x.begin() + row + end);
  return slice;
}

void compare_attention(int T, int H, int KV, int D, float p) {
  const int B = 2, N = B * T, layer = 3;
  const AttentionShape shape{B, T, H, KV, D};
  const Dropout dropout{p, 11, 12, 13};
  const std::string name = "attention vs textbook" + at({T, H, KV, D}) + (p > 0 ? "dropout/" : "");
  const int width = shape.qkv_width(), k_at = H * D, v_at = k_at + KV * D;
  const std::vector<float> qkv = random_floats(N * width, 1, 0, 1.5f), dout = random_floats(N * H * D, 2);
  std::vector<float> out = garbage(N * H * D), lse = garbage(B * H * T), dqkv = garbage(N * width);
  const Doubles m = attention_multipliers(dropout, layer, B, H, T);
  Doubles want(N * H * D), P(m.size()), want_dqkv(N * width);

  attention_forward(out.data(), lse.data(), qkv.data(), shape, dropout, layer);
  textbook::attention_forward(want.data(), P.data(), widen(qkv).data(), m.data(), B, T, H, KV, D);
  check_close(name + "out", out, want, kTolerance);

  attention_backward(dqkv.data(), dout.data(), out.data(), lse.data(), qkv.data(), shape, dropout, layer);
  textbook::attention_backward(want_dqkv.data(), widen(dout).data(), P.data(), widen(qkv).data(), m.data(), B,
                               T, H, KV, D);
  const auto compare = [&](const char* part, int begin, int end) {
    check_close(name + part, columns(dqkv, width, begin, end), columns(want_dqkv, width, begin, end),
                kTolerance);
  };
  compare("dv", v_at, width);
  if (T == 1) return compare("dqkv", 0, width);  // P = 1 whatever q and k are: dq = dk = 0 but for rounding
  compare("dq", 0, k_at);
  compare("dk", k_at, v_at);

  // The same, the last few queries alone, with all else in the past.
  const int past = T / 2, fresh = T - past;
  std::vector<float> late = garbage(fresh * H * D), late_lse = garbage(H * fresh);
  attention_forward(late.data(), late_lse.data(), qkv.data() + past * width, width,
                    {qkv.data() + k_at, qkv.data() + v_at, size_t(width), past}, {1, fresh, H, KV, D}, {}, 0);
  if (p == 0) check_close(name + "past", late, Doubles(&want[past * H * D], &want[T * H * D]), kTolerance);
}

}  // namespace

TEST_CASE("attention agrees with the textbook", "[attention][textbook]") {
  for (const int T : {1, 7, 17, 33, 63, 64, 65, 130})
    for (const auto& [H, KV, D] : {std::array{1, 1, 4}, {4, 2, 7}, {3, 1, 16}, {2, 2, 33}})
      for (const float p : {0.f, .3f}) compare_attention(T, H, KV, D, p);
  compare_attention(65, 2, 1, 140, .3f);
}

TEST_CASE("attention does not overflow where scores are large", "[attention][textbook]") {
  const int T = 70, D = 4;
  std::vector<float> qkv = random_floats(T * 3 * D, 1, 0, 30), out = garbage(T * D), lse = garbage(T);
  Doubles want(T * D), P(T * T);
  attention_forward(out.data(), lse.data(), qkv.data(), {1, T, 1, 1, D}, {}, 0);
  textbook::attention_forward<double>(want.data(), P.data(), widen(qkv).data(), nullptr, 1, T, 1, 1, D);
  check_close("attention vs textbook/large scores/out", out, want, 3e-5);  // scores of 1000 are exact to 1e-4
}

TEST_CASE("activations agree with the textbook", "[activation][textbook]") {
  for (const Activation kind : kKinds)
    for (const int N : kSizes)
      for (const int F : {1, 7, 17, 33, 100})
        for (const float deviation : {1.f, 30.f}) {
          const int width = width_of(kind, F);
          const std::string name = std::string(name_of(kActivations, kind)) + " vs textbook" + at({N, F});
          const std::vector<float> x = random_floats(N * width, 1, 0, deviation),
                                   dy = random_floats(N * F, 2);
          std::vector<float> y = garbage(N * F), dx = garbage(N * width);
          Doubles want(N * F), want_dx(N * width);
          activation_forward(y.data(), x.data(), kind, N, F);
          textbook::activation_forward(want.data(), widen(x).data(), kind, N, F);
          check_close(name + "y", y, want, kTolerance, 1e3 * norm_of(widen(x)));
          activation_backward(dx.data(), dy.data(), x.data(), kind, N, F);
          textbook::activation_backward(want_dx.data(), widen(dy).data(), widen(x).data(), kind, N, F);
          check_close(name + "dx", dx, want_dx, kTolerance, 1e3 * norm_of(widen(dy)));
        }
}

TEST_CASE("dropout keeps its promises", "[dropout]") {
  const int B = 3, T = 50, C = 70;
  const Dropout dropout{.2f, 5, 6, 0};
  const std::vector<float> x = random_floats(B * T * C, 1, 3);
  std::vector<float> y = x;
  dropout_apply(y.data(), dropout, 1, DropoutSite::ffn_out, B, T, C);

  int dropped = 0, wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    dropped += y[i] == 0;
    wrong += y[i] != 0 && std::fabs(y[i] - x[i] / .8f) > 1e-6f * std::fabs(x[i]);
  }
  CHECK(wrong == 0);
  const double n = x.size(), deviation = std::sqrt(n * .2 * .8);
  CHECK(std::fabs(dropped - .2 * n) < 5 * deviation);

  // The backward pass multiplies by the same numbers.
  std::vector<float> ones(x.size(), 1), dx = random_floats(x.size(), 2);
  dropout_apply(ones.data(), dropout, 1, DropoutSite::ffn_out, B, T, C);
  Doubles want = widen(x), want_dx = widen(dx);
  dropout_apply(dx.data(), dropout, 1, DropoutSite::ffn_out, B, T, C);
  textbook::dropout_forward(want.data(), widen(ones).data(), x.size());
  textbook::dropout_backward(want_dx.data(), widen(ones).data(), x.size());
  check_close("dropout vs textbook/y", y, want, kTolerance);
  check_close("dropout vs textbook/dx", dx, want_dx, kTolerance);

  // Anything that names another element draws another number.
  const auto mask = [&](const Dropout& d, int layer, DropoutSite site) {
    std::vector<float> m(x.size(), 1);
    dropout_apply(m.data(), d, layer, site, B, T, C);
    return m;
  };
  const Dropout others[] = {{.2f, 4, 6, 0}, {.2f, 5, 7, 0}, {.2f, 5, 6, 1}};
  for (const Dropout& other : others) CHECK(!same_bits(mask(other, 1, DropoutSite::ffn_out), ones));
  CHECK(!same_bits(mask(dropout, 2, DropoutSite::ffn_out), ones));
  CHECK(!same_bits(mask(dropout, 1, DropoutSite::attention_out), ones));
  const std::vector<float> first_row(ones.begin(), ones.begin() + C);
  for (int row = 1; row < B * T; ++row)
    CHECK(!same_bits(std::vector<float>(&ones[row * C], &ones[row * C] + C), first_row));

  // Row 2 of a batch is row 0 of the micro-batch that starts there.
  std::vector<float> last(T * C, 1);
  dropout_apply(last.data(), {.2f, 5, 6, 2}, 1, DropoutSite::ffn_out, 1, T, C);
  CHECK(same_bits(last, std::vector<float>(&ones[2 * T * C], ones.data() + ones.size())));

  // A line in pieces is the line.
  std::vector<float> whole(100, 1), pieces(100, 1);
  dropout_line(whole.data(), 9, .5f, 0, 100);
  for (const auto& [begin, end] : {std::array{0, 7}, {7, 39}, {39, 100}})
    dropout_line(&pieces[begin], 9, .5f, begin, end - begin);
  CHECK(same_bits(whole, pieces));

  y = x;
  dropout_apply(y.data(), {0, 5, 6, 0}, 1, DropoutSite::ffn_out, B, T, C);
  CHECK(same_bits(y, x));
}

TEST_CASE("residual branch agrees with the textbook for every placement", "[residual][textbook]") {
  const int N = 17, C = 33;
  for (const Placement& row : placements())
    for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm}) {
      Config config;
      config.placement = row.name, config.norm = kind, config.norm_bias = true, config.vocab_size = 1;
      config.channels = C, config.n_head = 1, config.skip_scale = 1.7;
      config = resolve(config);
      const std::string name =
          "branch vs textbook/" + config.placement + "/" + name_of(kNormKinds, kind) + "/";

      std::vector<float> weights(1000), gradients(1000);
      const auto declare = [&](std::vector<float>& buffer) {
        Layout layout(buffer.data());
        Branch branch;
        declare_branch_enter(branch, layout, config, "b");
        declare_branch_leave(branch, layout, config, "b");
        return std::pair{branch, layout.table()};
      };
      const auto [p, table] = declare(weights);
      const Branch g = declare(gradients).first;
      Tensors<double> in(7), want_g(7);
      in[0] = random_doubles(N * C, 1), want_g[0] = Doubles(N * C);
      const std::vector<bool> there = {row.norm_in,  row.norm_in,  row.norm_out,
                                       row.norm_out, row.norm_sum, row.norm_sum};
      for (size_t i = 0, t = 0; i < there.size(); ++i) {
        if (!there[i]) continue;
        const std::vector<float> w = random_floats(C, i + 2, i % 2 == 0, .3f),
                                 start = random_floats(C, i + 10);
        std::copy(w.begin(), w.end(), weights.begin() + table[t].offset);
        std::copy(start.begin(), start.end(), gradients.begin() + table[t].offset);
        in[i + 1] = widen(w), want_g[i + 1] = widen(start);
        t++;
      }

      std::vector<float> kept(10000);
      Layout layout(kept.data());
      const BranchSaved saved = declare_branch_saved(layout, config, "b", N);
      const Neighbours<float> F{N, C};
      std::vector<float> x(in[0].begin(), in[0].end()), f = garbage(N * C), normed = garbage(N * C),
                                                        y = garbage(N * C);
      const float* u = branch_enter(saved, x.data(), p, N, C);
      F.forward(f.data(), u);
      branch_leave(y.data(), saved, normed.data(), x.data(), f.data(), p, N, C);
      textbook::BranchSaved<double> textbook_saved;
      Doubles want(N * C);
      auto tp = branch_of(row, in, kind == NormKind::layernorm),
           tg = branch_of(row, want_g, kind == NormKind::layernorm);
      tp.skip = p.skip;
      textbook::branch_forward(want.data(), textbook_saved, in[0].data(), tp, Neighbours<double>{N, C}, N, C);
      check_close(name + "y", y, want, kTolerance);

      std::vector<float> d = random_floats(N * C, 9), scratch = garbage(N * C), du = garbage(N * C);
      textbook::branch_backward(want_g[0].data(), tg, widen(d).data(), in[0].data(), textbook_saved, tp,
                                Neighbours<double>{N, C}, N, C);
      const float* df = branch_leave_backward(d.data(), scratch.data(), g, f.data(), saved, p, N, C);
      F.backward(du.data(), df, u);
      branch_enter_backward(d.data(), g, du.data(), x.data(), saved, p, N, C);
      check_close(name + "dx", d, want_g[0], kTolerance);
      for (size_t i = 0, t = 0; i < there.size(); ++i) {
        if (!there[i]) continue;
        const float* got = gradients.data() + table[t++].offset;
        check_close(name + "gradient " + std::to_string(i), {got, size_t(C)}, want_g[i + 1], kTolerance);
      }
    }
}

TEST_CASE("cross-entropy agrees with the textbook", "[cross_entropy][textbook]") {
  for (const int N : kSizes)
    for (const int V : {1, 7, 17, 33, 1000})
      for (const float shift : {0.f, 200.f, -200.f}) {  // exp(200) overflows
        const std::string name = "cross-entropy vs textbook" + at({N, V});
        const std::vector<float> logits = random_floats(N * V, 1, shift, 2);
        std::vector<int> targets = random_ints(N, 2, V);
        if (N > 1) targets[1] = kIgnore;
        std::vector<float> losses = garbage(N), dlogits = garbage(N * V), in_place = logits;
        Doubles want(N), want_dlogits(N * V);
        cross_entropy(losses.data(), dlogits.data(), logits.data(), targets.data(), .7f, N, V);
        textbook::cross_entropy_forward(want.data(), widen(logits).data(), targets.data(), N, V);
        textbook::cross_entropy_backward(want_dlogits.data(), widen(logits).data(), targets.data(),
                                         double(.7f), N, V);
        check_close(name + "losses", losses, want, kTolerance);
        check_close(name + "dlogits", dlogits, want_dlogits, kTolerance);

        cross_entropy(losses.data(), in_place.data(), in_place.data(), targets.data(), .7f, N, V);
        CHECK(same_bits(in_place, dlogits));
        std::vector<float> alone = garbage(N);
        cross_entropy(alone.data(), nullptr, logits.data(), targets.data(), .7f, N, V);
        CHECK(same_bits(alone, losses));
      }
}

TEST_CASE("classifier agrees with the textbook, in one and in several chunks of rows",
          "[cross_entropy][textbook]") {
  for (const auto& [N, C, V] : {std::array{17, 7, 33}, {300, 5, 20000}}) {
    const std::string name = "classifier vs textbook" + at({N, C, V});
    const int rows = classifier_rows(N, V);
    CHECK((V == 20000) == (rows < N));
    const std::vector<float> x = random_floats(N * C, 1), weight = random_floats(V * C, 2);
    std::vector<int> targets = random_ints(N, 3, V);
    targets[2] = targets[N - 1] = kIgnore;
    std::vector<float> losses = garbage(N), dx = garbage(N * C), dweight = random_floats(V * C, 4, 0, .1f),
                       logits = garbage(size_t(rows) * V);
    Doubles want_logits(size_t(N) * V), want(N), dlogits(size_t(N) * V), want_dx(N * C),
        want_dweight = widen(dweight);
    classifier(losses.data(), dx.data(), dweight.data(), x.data(), weight.data(), targets.data(), .7f,
               logits.data(), N, C, V);
    textbook::linear_forward<double>(want_logits.data(), widen(x).data(), widen(weight).data(), nullptr, N, C,
                                     V);
    textbook::cross_entropy_forward(want.data(), want_logits.data(), targets.data(), N, V);
    textbook::cross_entropy_backward(dlogits.data(), want_logits.data(), targets.data(), double(.7f), N, V);
    textbook::linear_backward<double>(want_dx.data(), want_dweight.data(), nullptr, dlogits.data(),
                                      widen(x).data(), widen(weight).data(), N, C, V);
    check_close(name + "losses", losses, want, kTolerance);
    // Sums of V terms that nearly cancel: 1.6e-6 at V = 20000 where the processor has no fused multiply-add.
    check_close(name + "dx", dx, want_dx, 3 * kTolerance);
    check_close(name + "dweight", dweight, want_dweight, kTolerance);

    std::vector<float> alone = garbage(N);
    classifier(alone.data(), nullptr, nullptr, x.data(), weight.data(), targets.data(), 1, logits.data(), N,
               C, V);
    CHECK(same_bits(alone, losses));
  }
}

TEST_CASE("AdamW, gradient norm and clipping agree with the textbook", "[optimizer][textbook]") {
  Layout layout;
  layout.take("matrix", {7, 17});
  layout.take("vector", {33});
  layout.take_joined({{"running", {5}, {}, false, false}});  // saved with the model, but not trained
  layout.take("large", {300, 301});                          // more than one piece
  layout.take("small", {3, 1});
  const std::vector<TensorSpec>& table = layout.table();
  const size_t n = layout.size();
  const std::vector<float> before = random_floats(n, 1);
  std::vector<float> w = before, m(n), v(n);
  Doubles want = widen(w), want_m(n), want_v(n);
  const AdamW options{.8f, .9f, 1e-3f, .1f};
  const float lr = .1f;
  for (int t = 1; t <= 10; ++t) {
    const std::vector<float> g = random_floats(n, t + 10, 0, t % 3 == 0 ? 1e-3f : 1.f);  // eps counts, too
    const float factor = t % 2 == 0 ? .3f : 1.f;
    adamw_step(w.data(), m.data(), v.data(), g.data(), table, options, lr, factor, t);
    double squares = 0;
    for (const TensorSpec& spec : table) {
      if (!spec.trained) continue;
      const size_t at = spec.offset;
      textbook::adamw_step<double>(&want[at], &want_m[at], &want_v[at], &widen(g)[at], spec.size(),
                                   options.beta1, options.beta2, options.eps,
                                   spec.shape.size() > 1 ? options.weight_decay : 0, lr, factor, t);
      squares += std::pow(textbook::gradient_norm(&widen(g)[at], spec.size()), 2);
    }
    check_error("adamw vs textbook/norm", std::fabs(gradient_norm(g.data(), table) / std::sqrt(squares) - 1),
                1e-12);
  }
  for (const TensorSpec& spec : table) {
    const auto compare = [&](const char* what, const std::vector<float>& got, const Doubles& expected) {
      check_close("adamw vs textbook/" + spec.name + "/" + what, {&got[spec.offset], spec.size()},
                  {&expected[spec.offset], spec.size()}, kTolerance);
    };
    compare("weights", w, want);
    compare("m", m, want_m);
    compare("v", v, want_v);
  }
  for (const auto& [norm, clip] : {std::pair{5., 1.}, {.5, 1.}, {1., 1.}, {7., 0.}, {0., 1.}})
    CHECK(clip_factor(norm, static_cast<float>(clip)) ==
          static_cast<float>(textbook::clip_factor(norm, clip)));
}

// ---- the whole model, of textbook layers -----------------------------------------------------------------
// PyTorch's references have no dropout; this one has. The masks are the product's own, given to the textbook:
// what is shown is that forward and backward apply them, and in the right places.

namespace {

Doubles multipliers(const Dropout& dropout, int layer, DropoutSite site, int B, int T, int C) {
  std::vector<float> ones(B * T * C, 1);
  dropout_apply(ones.data(), dropout, layer, site, B, T, C);
  return widen(ones);
}

struct TextbookModel {
  const Model& model;
  const Config& config = model.config;
  const int B, T;
  const Dropout dropout;
  const int N = B * T, C = config.channels, H = config.n_head, KV = config.kv_heads, D = config.head_dim,
            F = config.hidden, V = config.vocab_size;
  Doubles weights = widen({model.weights.get(), model.floats}), gradients = Doubles(model.floats),
          logits = {};

  // Where the tensor that the product has at w is in these buffers.
  const double* p(const float* w) { return at(weights, w); }
  double* g(const float* w) { return at(gradients, w); }
  double* at(Doubles& buffer, const float* w) { return w ? &buffer[w - model.weights.get()] : nullptr; }

  textbook::Norm<double> norm(const Norm& n, Doubles& buffer) {
    return {n.kind == NormKind::layernorm, n.eps, at(buffer, n.gain), at(buffer, n.bias)};
  }
  textbook::Branch<double> branch(const Branch& b, Doubles& buffer) {
    return {norm(b.norm_in, buffer), norm(b.norm_out, buffer), norm(b.norm_sum, buffer), double(b.skip)};
  }
  void linear(Doubles& y, const double* x, const Linear& w, int I, int O) {
    y.resize(N * O);
    textbook::linear_forward(y.data(), x, p(w.weight), p(w.bias), N, I, O);
  }
  void linear_backward(double* dx, const double* dy, const double* x, const Linear& w, int I, int O) {
    textbook::linear_backward(dx, g(w.weight), g(w.bias), dy, x, p(w.weight), N, I, O);
  }

  struct Attention {
    TextbookModel& m;
    const Block& block;
    int layer;
    Doubles qkv = {}, P = {}, mixed = {};
    int width() const { return (m.H + 2 * m.KV) * m.D; }
    Doubles masks() const { return attention_multipliers(m.dropout, layer, m.B, m.H, m.T); }
    Doubles out_mask() const {
      return multipliers(m.dropout, layer, DropoutSite::attention_out, m.B, m.T, m.C);
    }

    void forward(double* f, const double* u) {
      m.linear(qkv, u, block.qkv, m.C, width());
      if (m.config.position == Position::rope)
        textbook::rope_forward(qkv.data(), m.config.rope_theta, 0, m.B, m.T, m.H + m.KV, m.D, width());
      P.resize(m.B * m.H * m.T * m.T), mixed.resize(m.N * m.H * m.D);
      textbook::attention_forward(mixed.data(), P.data(), qkv.data(), masks().data(), m.B, m.T, m.H, m.KV,
                                  m.D);
      textbook::linear_forward(f, mixed.data(), m.p(block.o.weight), m.p(block.o.bias), m.N, m.H * m.D, m.C);
      textbook::dropout_forward(f, out_mask().data(), m.N * m.C);
    }
    void backward(double* du, double* df, const double* u) {
      Doubles dmixed(mixed.size()), dqkv(qkv.size());
      textbook::dropout_backward(df, out_mask().data(), m.N * m.C);
      m.linear_backward(dmixed.data(), df, mixed.data(), block.o, m.H * m.D, m.C);
      textbook::attention_backward(dqkv.data(), dmixed.data(), P.data(), qkv.data(), masks().data(), m.B, m.T,
                                   m.H, m.KV, m.D);
      if (m.config.position == Position::rope)
        textbook::rope_backward(dqkv.data(), m.config.rope_theta, m.B, m.T, m.H + m.KV, m.D, width());
      m.linear_backward(du, dqkv.data(), u, block.qkv, m.C, width());
    }
  };

  struct FeedForward {
    TextbookModel& m;
    const Block& block;
    int layer;
    Doubles raised = {}, active = {};
    int width() const { return width_of(m.config.activation, m.F); }
    Doubles out_mask() const { return multipliers(m.dropout, layer, DropoutSite::ffn_out, m.B, m.T, m.C); }

    void forward(double* f, const double* u) {
      m.linear(raised, u, block.up, m.C, width());
      active.resize(m.N * m.F);
      textbook::activation_forward(active.data(), raised.data(), m.config.activation, m.N, m.F);
      textbook::linear_forward(f, active.data(), m.p(block.down.weight), m.p(block.down.bias), m.N, m.F, m.C);
      textbook::dropout_forward(f, out_mask().data(), m.N * m.C);
    }
    void backward(double* du, double* df, const double* u) {
      Doubles dactive(active.size()), draised(raised.size());
      textbook::dropout_backward(df, out_mask().data(), m.N * m.C);
      m.linear_backward(dactive.data(), df, active.data(), block.down, m.F, m.C);
      textbook::activation_backward(draised.data(), dactive.data(), raised.data(), m.config.activation, m.N,
                                    m.F);
      m.linear_backward(du, draised.data(), u, block.up, m.C, width());
    }
  };

  struct Layer {
    Attention attention;
    FeedForward ffn;
    textbook::BranchSaved<double> attention_saved = {}, ffn_saved = {};
    Doubles middle = {}, y = {};
  };

  // Sum of the losses; gradients += scale · its gradients.
  double loss_and_gradients(const Batch& batch, double scale) {
    const ModelTensors& t = model.p;
    Doubles embedded(N * C), x(N * C), y(N * C), losses(N);
    const Doubles mask = multipliers(dropout, 0, DropoutSite::embedding, B, T, C);
    textbook::NormSaved<double> embedding_saved, final_saved;
    textbook::embedding_forward(embedded.data(), batch.tokens, p(t.token), N, C);
    if (t.position) textbook::learned_position_forward(embedded.data(), p(t.position), 0, B, T, C);
    textbook::norm_forward(x.data(), embedding_saved, embedded.data(), norm(t.embedding_norm, weights), N, C);
    textbook::dropout_forward(x.data(), mask.data(), N * C);
    std::vector<Layer> layers;
    for (int l = 0; l < config.n_layer; ++l) {
      const Block& block = t.blocks[l];
      Layer& layer = layers.emplace_back(Layer{{*this, block, l}, {*this, block, l}});
      const Doubles& in = l == 0 ? x : layers[l - 1].y;
      layer.middle.resize(N * C), layer.y.resize(N * C);
      textbook::branch_forward(layer.middle.data(), layer.attention_saved, in.data(),
                               branch(block.attention, weights), layer.attention, N, C);
      textbook::branch_forward(layer.y.data(), layer.ffn_saved, layer.middle.data(),
                               branch(block.ffn, weights), layer.ffn, N, C);
    }
    const Doubles& last = layers.back().y;
    textbook::norm_forward(y.data(), final_saved, last.data(), norm(t.final_norm, weights), N, C);
    const Linear head{t.head ? t.head : t.token, nullptr};
    linear(logits, y.data(), head, C, V);
    textbook::cross_entropy_forward(losses.data(), logits.data(), batch.targets, N, V);

    Doubles dlogits(N * V), d(N * C), dy(N * C);
    textbook::cross_entropy_backward(dlogits.data(), logits.data(), batch.targets, scale, N, V);
    linear_backward(dy.data(), dlogits.data(), y.data(), head, C, V);
    textbook::norm_backward(d.data(), norm(t.final_norm, gradients), dy.data(), last.data(), final_saved,
                            norm(t.final_norm, weights), N, C);
    for (int l = config.n_layer - 1; l >= 0; --l) {
      const Block& block = t.blocks[l];
      Layer& layer = layers[l];
      const Doubles& in = l == 0 ? x : layers[l - 1].y;
      textbook::branch_backward(dy.data(), branch(block.ffn, gradients), d.data(), layer.middle.data(),
                                layer.ffn_saved, branch(block.ffn, weights), layer.ffn, N, C);
      textbook::branch_backward(d.data(), branch(block.attention, gradients), dy.data(), in.data(),
                                layer.attention_saved, branch(block.attention, weights), layer.attention, N,
                                C);
    }
    textbook::dropout_backward(d.data(), mask.data(), N * C);
    textbook::norm_backward(dy.data(), norm(t.embedding_norm, gradients), d.data(), embedded.data(),
                            embedding_saved, norm(t.embedding_norm, weights), N, C);
    if (t.position) textbook::learned_position_backward(g(t.position), dy.data(), B, T, C);
    textbook::embedding_backward(g(t.token), batch.tokens, dy.data(), N, C);
    double sum = 0;
    for (const double loss : losses) sum += loss;
    return sum;
  }
};

// Gains 1 ± .3, biases ± .1, matrices so large that attention is far from uniform.
void randomise(Model& model) {
  for (const TensorSpec& spec : model.table) {
    const bool matrix = spec.shape.size() > 1, gain = !matrix && spec.start.mean == 1;
    const float deviation = matrix ? std::sqrt(2.f / (spec.shape[0] + spec.shape[1])) : gain ? .3f : .1f;
    const std::vector<float> w = random_floats(spec.size(), spec.offset + 1, gain, deviation);
    std::copy(w.begin(), w.end(), model.weights.get() + spec.offset);
  }
}

void compare_models(const std::string& placement, NormKind kind, bool llama, float dropout_p) {
  Config config;
  config.placement = placement, config.norm = kind, config.dropout = dropout_p;
  config.n_layer = 2, config.n_head = 4, config.channels = 12, config.head_dim = 6, config.context = 11;
  config.vocab_size = 13;
  config.position = llama ? Position::rope : Position::learned;
  config.activation = llama ? Activation::swiglu : Activation::gelu;
  config.bias = config.tied = !llama;
  config.kv_heads = llama ? 2 : 4;
  config.embedding_norm = llama;
  Model model(config);
  randomise(model);
  const std::string name = "model vs textbook/" + placement + " " + name_of(kNormKinds, kind) +
                           (llama ? " llama" : " gpt2") + (dropout_p > 0 ? " dropout/" : "/");

  const int B = 3, T = 9;
  const Dropout dropout{dropout_p, 3, 4, 5};
  const std::vector<int> tokens = random_ints(B * T, 1, 13);
  std::vector<int> targets = random_ints(B * T, 2, 13);
  targets[4] = kIgnore;
  const Batch batch{tokens.data(), targets.data(), B, T};
  Activations activations = allocate_activations(model.config, B, T, true);
  TextbookModel textbook{.model = model, .B = B, .T = T, .dropout = dropout};
  const float scale = 1.f / (B * T - 1);
  const double want = textbook.loss_and_gradients(batch, scale);
  const double loss = model_loss_and_gradients(model, activations, batch, scale, dropout);
  check_error(name + "loss", std::fabs(loss / want - 1), kTolerance);
  for (const TensorSpec& spec : model.table) {
    // Without RoPE a key bias adds the same to all scores of a row: its gradient is zero but for rounding.
    if (spec.name.ends_with("attention.k.bias") && !llama) continue;
    check_close(name + spec.name, {model.gradients.get() + spec.offset, spec.size()},
                {&textbook.gradients[spec.offset], spec.size()}, kModelTolerance);
  }
  if (dropout_p > 0) return;
  check_error(name + "loss alone", std::fabs(model_loss(model, activations, batch) / want - 1), kTolerance);

  // The first sequence once more, in pieces, with keys and values from the cache.
  const Activations without_backward = allocate_activations(model.config, 1, T, false);
  ModelCache cache(model.config);
  for (const int piece : {1, 4, 1, 3}) {
    const float* logits = model_logits(model, without_backward, cache, tokens.data() + cache.past, piece);
    const size_t row = size_t(cache.past - 1) * config.vocab_size;
    check_close(name + "cached logits", {logits, size_t(config.vocab_size)},
                {&textbook.logits[row], size_t(config.vocab_size)}, kModelTolerance);
  }
  CHECK(cache.past == T);
}

}  // namespace

TEST_CASE("the model agrees with the textbook, every placement, with and without dropout",
          "[model][textbook]") {
  for (const Placement& row : placements())
    for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm})
      for (const bool llama : {false, true})
        for (const float dropout : {0.f, .2f}) compare_models(row.name, kind, llama, dropout);
}
