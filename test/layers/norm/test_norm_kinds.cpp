// Norms of all kinds: their tensors, identities between them, and BatchNorm in training and evaluation.

#include <utility>

#include "norm_layer.hpp"

namespace {

std::vector<float> scaled(float c, std::vector<float> x) {
  for (float& v : x) v *= c;
  return x;
}

}  // namespace

TEST_CASE("a norm declares the tensors of its kind and their initial values", "[norm]") {
  struct Want {
    NormKind kind;
    bool offset;
    std::vector<std::string> rows;
  };
  for (const auto& [kind, offset, rows] :
       {Want{NormKind::layernorm, false, {"gain 7 1", "bias 7 0"}},
        Want{NormKind::rmsnorm, true, {"gain 7 0", "bias 7 0"}},
        Want{NormKind::scalenorm, false, {"gain 1 2.6457512"}},
        Want{NormKind::batchnorm, false, {"gain 7 1", "bias 7 0", "running_mean 7 0 kept", "running_var 7 1 kept"}},
        Want{NormKind::dyt, false, {"gain 7 1", "bias 7 0", "alpha 1 0.5"}},
        Want{NormKind::derf, false, {"gain 7 1", "bias 7 0", "alpha 1 0.5", "shift 1 0"}},
        Want{NormKind::gatednorm, false, {"gain 7 1", "bias 7 0", "down 3x7 N(0, 0.02)", "up 7x3 N(0, 0.02)"}}}) {
    std::vector<std::string> got;
    Layout layout;
    declare_norm(layout, norm_config(kind, kind != NormKind::scalenorm, 1e-5f, offset), "norm", 7);
    for (const TensorSpec& spec : layout.table()) {
      char start[32];
      const double mean = spec.start.mean, deviation = spec.start.deviation;
      std::snprintf(start, sizeof start, deviation > 0 ? "N(%g, %g)" : "%.8g", mean, deviation);
      const std::string shape =
          std::to_string(spec.shape[0]) + (is_vector(spec) ? "" : "x" + std::to_string(spec.shape[1]));
      got.push_back(spec.name.substr(5) + " " + shape + " " + start + (spec.trained ? "" : " kept"));
      CHECK(spec.decay == !is_vector(spec));
      CHECK(is_norm(spec));
    }
    CHECK(got == rows);
  }
}

TEST_CASE("gains start at what is asked for, ScaleNorm's times the root of the width", "[norm]") {
  const auto start = [](NormKind kind, bool offset) {
    Config c = norm_config(kind, false, 1e-5f, offset);
    c.norm_gain_init = .25f;
    Layout layout;
    declare_norm(layout, c, "norm", 16);
    return layout.table().front().start.mean;
  };
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm, NormKind::batchnorm, NormKind::dyt,
                              NormKind::derf, NormKind::gatednorm})
    CHECK(start(kind, false) == .25f);
  CHECK(start(NormKind::rmsnorm, true) == -.75f);
  CHECK(start(NormKind::scalenorm, false) == 1);
}

TEST_CASE("a norm has the kind of its site, by its name", "[norm]") {
  Config c = norm_config(NormKind::layernorm, false, 1e-5f, true);
  c.norm_sites = {NormChoice{NormKind::rmsnorm, true}, NormChoice{NormKind::dyt}, {}, NormChoice{NormKind::rmsnorm},
                  NormChoice{NormKind::scalenorm}};
  const auto tensors = [&](const std::string& name) {
    Layout weights, saved;
    const Norm p = declare_norm(weights, c, name, 4);
    declare_norm_saved(saved, c, name, 3, 4);
    std::string all = name_of(kNormKinds, p.kind) + std::string(p.unit_offset ? "+1:" : ":");
    for (const Layout* layout : {&weights, &saved})
      for (const TensorSpec& spec : layout->table()) all += " " + spec.leaf();
    return all;
  };
  CHECK(tensors("attention.norm_in") == "rmsnorm: rstd");
  CHECK(tensors("ffn.norm_inner") == "dyt+1: gain bias alpha");  // resolve() refuses the offset
  CHECK(tensors("ffn.norm_out") == "layernorm+1: gain mean rstd");
  CHECK(tensors("ffn.norm_sum") == "rmsnorm+1: gain rstd");
  CHECK(tensors("encoder.final_norm") == "scalenorm: gain rstd");
  for (const char* elsewhere : {"embedding.norm", "head.norm", "attention.q_norm", "attention.streams.norm"})
    CHECK(tensors(elsewhere) == "layernorm+1: gain mean rstd");
  c.bias = false;
  CHECK(tensors("ffn.norm_inner") == "dyt+1: gain alpha");
}

TEST_CASE("each kind of norm has its row in the table", "[norm]") {
  for (const auto& [kind, name] : kNormKinds) {
    INFO(name);
    CHECK(norm_row(kind).kind == kind);
    Config c = norm_config(kind);
    c.norm_bias.reset(), c.bias = true;
    const bool bare = kind == NormKind::rmsnorm || kind == NormKind::scalenorm || kind == NormKind::gatednorm;
    CHECK(*resolve(c).norm_bias == !bare);
    c.bias = false;
    CHECK(!*resolve(c).norm_bias);
  }
}

TEST_CASE("norms of all kinds are the same for any number of threads", "[norm]") {
  for (const auto& [kind, name] : kNormKinds)
    for (const auto& [N, C] : {std::array{500, 33}, {7, 2000}, {1000, 64}})
      check_same_for_all_threads(
          [&, N = N, C = C, kind = kind] { return NormLayer(norm_config(kind, norm_row(kind).bias), N, C).all(); });
}

TEST_CASE("norms of all kinds work in place", "[norm]") {
  for (const auto& [kind, name] : kNormKinds)
    for (const auto& [N, C] : {std::array{70, 33}, {1, 7}, {7, 1}}) {
      INFO(name);
      NormLayer norm(norm_config(kind, norm_row(kind).bias), N, C);
      const std::vector<float> x = random_floats(N * C, 1), dy = random_floats(N * C, 2);
      const std::vector<float> y = norm.forward(x), dx = norm.backward(dy, x);
      std::vector<float> in_place = x;
      norm_forward(in_place.data(), norm.saved, in_place.data(), norm.p, N, C, true);
      CHECK(same_bits(in_place, y));
      in_place = dy;
      norm_backward(in_place.data(), norm.g, in_place.data(), x.data(), norm.saved, norm.p, N, C);
      CHECK(same_bits(in_place, dx));
    }
}

// ---- identities --------------------------------------------------------------------------------------------

TEST_CASE("N(c·x) with eps·c² is N(x), to the bit for a power of two", "[norm]") {
  const int N = 7, C = 33;
  const std::vector<float> x = random_floats(N * C, 1, .5f);
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm, NormKind::scalenorm})
    for (const float c : {8.f, .25f}) {
      NormLayer one(norm_config(kind, false, 1e-2f), N, C), other(norm_config(kind, false, 1e-2f * c * c), N, C);
      CHECK(same_bits(one.forward(x), other.forward(scaled(c, x))));
      NormLayer same_eps(norm_config(kind, false, 1e-2f), N, C);
      CHECK_FALSE(same_bits(one.forward(x), same_eps.forward(scaled(c, x))));
    }
}

TEST_CASE("the gradient of a norm's input is orthogonal to the changes that the norm ignores", "[norm]") {
  // LayerNorm: orthogonal to (1, 1, ...) and x. RMSNorm and ScaleNorm: to x. BatchNorm: to both, along a channel.
  const int N = 9, C = 33;
  const std::vector<float> x = random_floats(N * C, 1, .5f), dy = random_floats(N * C, 2);
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm, NormKind::scalenorm, NormKind::batchnorm}) {
    INFO(name_of(kNormKinds, kind));
    NormLayer norm(norm_config(kind, false, 0), N, C);
    std::fill_n(norm.p.gain, norm.row("gain").size(), 1.f);
    norm.forward(x);
    const std::vector<float> dx = norm.backward(dy, x);
    const bool channels = kind == NormKind::batchnorm, centered = channels || kind == NormKind::layernorm;
    const int lines = channels ? C : N, length = channels ? N : C;
    for (int line = 0; line < lines; ++line) {
      double along_x = 0, along_one = 0, size = 0;
      for (int i = 0; i < length; ++i) {
        const int at = channels ? i * C + line : line * C + i;
        along_x += double(dx[at]) * double(x[at]);
        along_one += double(dx[at]);
        size += std::fabs(double(dx[at]));
      }
      check_error("norm blind/x", std::fabs(along_x) / size, 1e-6);
      if (centered) check_error("norm blind/one", std::fabs(along_one) / size, 1e-6);
    }
  }
}

TEST_CASE("ScaleNorm is RMSNorm with all gains g/√C", "[norm]") {
  const int N = 9, C = 33;
  for (const float eps : {1e-5f, .1f}) {
    NormLayer scale(norm_config(NormKind::scalenorm, false, eps), N, C);
    NormLayer rms(norm_config(NormKind::rmsnorm, false, eps), N, C);
    const float root = std::sqrt(static_cast<float>(C));
    std::fill_n(rms.p.gain, C, *scale.p.gain / root);
    const std::vector<float> x = random_floats(N * C, 1, .5f), dy = random_floats(N * C, 2);
    check_close("scalenorm vs rmsnorm/y", scale.forward(x), widen(rms.forward(x)), 5e-7);
    check_close("scalenorm vs rmsnorm/dx", scale.backward(dy, x), widen(rms.backward(dy, x)), 5e-7);
    double dg = 0;
    for (int c = 0; c < C; ++c) dg += double(rms.g.gain[c]) / double(root);
    check_error("scalenorm vs rmsnorm/dg", std::fabs(double(*scale.g.gain) / dg - 1), 1e-6);
  }
}

TEST_CASE("GatedNorm is half of RMSNorm if up is 0, and the same if the gate is open", "[norm]") {
  const int N = 130, C = 33;
  const std::vector<float> x = random_floats(N * C, 1, .5f), dy = random_floats(N * C, 2);
  for (const bool bias : {false, true}) {
    NormLayer gated(norm_config(NormKind::gatednorm, bias), N, C), rms(norm_config(NormKind::rmsnorm, bias), N, C);
    std::copy_n(gated.p.gain, C, rms.p.gain);
    if (bias) std::copy_n(gated.p.bias, C, rms.p.bias);
    std::fill_n(gated.p.up, 3 * C, 0.f);
    CHECK(same_bits(gated.forward(x), scaled(.5f, rms.forward(x))));
    CHECK(same_bits(gated.backward(dy, x), scaled(.5f, rms.backward(dy, x))));
    CHECK(same_bits(gated.gradient(gated.row("gain")), scaled(.5f, {rms.g.gain, rms.g.gain + C})));
    CHECK(same_bits(gated.gradient(gated.row("down")), std::vector<float>(3 * C)));
    if (!bias) continue;
    std::fill_n(gated.p.gain, C, 0.f), std::fill_n(gated.p.bias, C, 1.f);  // v is 1 everywhere, and so is s
    std::fill_n(gated.p.down, 3 * C, 50.f / C);
    for (const float sign : {1.f, -1.f}) {  // z is far beyond what e^z can hold
      std::fill_n(gated.p.up, 3 * C, sign * 10);
      for (const float y : gated.forward(x)) CHECK(y == std::max(0.f, sign));
      for (const float dx : gated.backward(dy, x)) CHECK(dx == 0);
    }
  }
}

TEST_CASE("frozen matrices of GatedNorm have no gradient and change no other", "[norm]") {
  const int N = 130, C = 33;
  const std::vector<float> x = random_floats(N * C, 1, .5f), dy = random_floats(N * C, 2);
  NormLayer whole(norm_config(NormKind::gatednorm), N, C);
  whole.forward(x);
  const std::vector<float> dx = whole.backward(dy, x);
  for (float* Norm::*frozen : {&Norm::down, &Norm::up}) {
    NormLayer norm(norm_config(NormKind::gatednorm), N, C);
    norm.forward(x);
    const float* memory = std::exchange(norm.g.*frozen, nullptr);
    CHECK(same_bits(norm.backward(dy, x), dx));
    CHECK(std::all_of(memory, memory + 3 * C, [](float g) { return g == 0; }));
    CHECK(same_bits(norm.gradient(norm.row("gain")), whole.gradient(whole.row("gain"))));
  }
}

TEST_CASE("a unit offset is the same norm with gains 1 + w, to the bit", "[norm]") {
  const int N = 130, C = 33;
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm})
    for (const bool bias : {false, true}) {
      NormLayer offset(norm_config(kind, bias, 1e-5f, true), N, C), plain(norm_config(kind, bias), N, C);
      for (int c = 0; c < C; ++c) plain.p.gain[c] = 1 + offset.p.gain[c];
      const std::vector<float> x = random_floats(N * C, 1, .5f), dy = random_floats(N * C, 2);
      CHECK(same_bits(offset.forward(x), plain.forward(x)));
      CHECK(same_bits(offset.backward(dy, x), plain.backward(dy, x)));
      CHECK(same_bits(offset.gradient(offset.row("gain")), plain.gradient(plain.row("gain"))));
    }
}

TEST_CASE("DyT is an odd function, Derf with a shift is not", "[norm]") {
  const int N = 5, C = 17;
  const std::vector<float> x = random_floats(N * C, 1, 0, 3);
  for (const NormKind kind : {NormKind::dyt, NormKind::derf}) {
    NormLayer norm(norm_config(kind), N, C);
    CHECK(same_bits(norm.forward(scaled(-1, x)), scaled(-1, norm.forward(x))) == (kind == NormKind::dyt));
    for (const float y : norm.forward(std::vector<float>(N * C, 1e30f))) CHECK(std::isfinite(y));
  }
}

TEST_CASE("the slopes of DyT and Derf do not cancel in the flat part of the curve", "[norm]") {
  for (const NormKind kind : {NormKind::dyt, NormKind::derf})
    for (const float x : {8.f, 12.f, 17.f, 19.f, -18.02183f}) {  // u = x/2; tanh 9.01 is 1 in float
      if (kind == NormKind::derf && std::fabs(x) > 17) continue;  // e^(−u²) underflows
      NormLayer norm(norm_config(kind), 1, 1);
      *norm.p.gain = 1, *norm.p.alpha = .5f;
      if (norm.p.shift) *norm.p.shift = 0;
      const double u = double(x) / 2, e = std::exp(-2 * std::fabs(u));
      const double slope = kind == NormKind::dyt ? 4 * e / ((1 + e) * (1 + e)) : 1.1283791670955126 * std::exp(-u * u);
      const std::vector<float> input = {x};
      norm.forward(input);
      check_error("norm slopes", std::fabs(double(norm.backward({1}, input)[0]) / (.5 * slope) - 1), 1e-5);
    }
}

TEST_CASE("a row of zeros has a finite gradient", "[norm]") {
  const int N = 2, C = 5;
  for (const NormKind kind : {NormKind::layernorm, NormKind::rmsnorm, NormKind::scalenorm}) {
    INFO(name_of(kNormKinds, kind));
    NormLayer norm(norm_config(kind, false, 1e-4f), N, C);
    const float gain = kind == NormKind::scalenorm ? std::sqrt(5.f) : 1;  // √C/√(C·eps) = 1/√eps, as for the others
    std::fill_n(norm.p.gain, norm.row("gain").size(), gain);
    const std::vector<float> x(N * C), dy = {1, -1, 2, -2, 0, 3, -1, -1, -1, 0};  // each row adds up to 0
    for (const float y : norm.forward(x)) CHECK(y == 0);
    check_close("norm of zeros", norm.backward(dy, x), times(100, widen(dy)), 1e-6);
  }
}

// ---- BatchNorm in training and in evaluation ---------------------------------------------------------------

TEST_CASE("BatchNorm reads its running statistics in evaluation and does not change them", "[norm]") {
  const int N = 5, C = 7;
  NormLayer norm(norm_config(NormKind::batchnorm, true), N, C);
  const std::vector<float> before(norm.weights.get(), norm.weights.get() + 4 * 16);
  const std::vector<float> x = random_floats(N * C, 1, 3, 2), y = norm.forward(x, false);
  for (int i = 0; i < N * C; ++i) {
    const int c = i % C;
    const double deviation = std::sqrt(double(norm.p.running_var[c]) + double(norm.p.eps));
    CHECK(y[i] == Approx(double(norm.p.gain[c]) * (double(x[i]) - double(norm.p.running_mean[c])) / deviation +
                         double(norm.p.bias[c])));
  }
  norm.forward(x, true);  // a forward pass in training does not change them either: it may run twice
  CHECK(same_bits(before, {norm.weights.get(), before.size()}));
}

TEST_CASE("BatchNorm's running statistics converge to those of the data", "[norm]") {
  const int N = 1000, C = 3;
  NormLayer norm(norm_config(NormKind::batchnorm), N, C);
  std::vector<float> x(N * C);
  for (int step = 0; step < 150; ++step) {
    for (int c = 0; c < C; ++c) {
      const float k = static_cast<float>(c);
      const std::vector<float> column = random_floats(N, 100 * step + c, 100 * k, 1 + k);
      for (int n = 0; n < N; ++n) x[n * C + c] = column[n];
    }
    norm.forward(x);
    norm.backward(x, x);
  }
  for (int c = 0; c < C; ++c) {
    CHECK(norm.p.running_mean[c] == Approx(100 * c).margin(.1));
    CHECK(norm.p.running_var[c] == Approx((1 + c) * (1 + c)).epsilon(.05));
  }
}

TEST_CASE("BatchNorm does not cancel if the mean is large", "[norm]") {
  const int N = 700, C = 5;
  NormLayer norm(norm_config(NormKind::batchnorm, false, 0), N, C);
  norm.forward(random_floats(N * C, 1, 1000, .1f));
  for (int c = 0; c < C; ++c) CHECK(norm.saved.variance[c] == Approx(.01).epsilon(.2));
}

TEST_CASE("BatchNorm of a single row and of a constant channel", "[norm]") {
  for (const int N : {1, 9}) {
    NormLayer norm(norm_config(NormKind::batchnorm, true), N, 2);
    const std::vector<float> x(2 * N, 3), before(norm.p.running_var, norm.p.running_var + 2);
    const std::vector<float> y = norm.forward(x), dx = norm.backward(random_floats(2 * N, 1), x);
    for (int i = 0; i < 2 * N; ++i) {
      CHECK(y[i] == norm.p.bias[i % 2]);
      CHECK(std::isfinite(dx[i]));
    }
    for (int c = 0; c < 2; ++c) CHECK(norm.p.running_var[c] == Approx(.9 * double(before[c])));
  }
}
