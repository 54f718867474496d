// The parts of nGPT: steps on the sphere, queries and keys of length 1, factors on logits, weight vectors of length 1.

#include "layers/kernels/reductions.hpp"
#include "layers/model/normed_weights.hpp"
#include "layers/model/initialize.hpp"
#include "layers/norm/unit_qk.hpp"
#include "layers/streams/sphere.hpp"
#include "layers/textbook/ngpt.hpp"
#include "layers/training/run_optimizer.hpp"
#include "layers/training/step.hpp"
#include "message.hpp"
#include "textbook.hpp"

namespace {

constexpr double kTolerance = 1e-6;
constexpr float kFactor = 1.7f;

std::string sizes(std::initializer_list<int> list) {
  std::string text;
  for (const int n : list) text += (text.empty() ? "/" : "x") + std::to_string(n);
  return text + "/";
}

// The length of each row (stride 1) or column (stride: the width).
double length(const float* x, int n, size_t stride = 1) {
  double squares = 0;
  for (int i = 0; i < n; ++i) squares += double(x[i * stride]) * double(x[i * stride]);
  return std::sqrt(squares);
}

struct SphereCase {
  int N, C;
  std::vector<float> x = random_floats(size_t(N) * C, 1, .3f), f = random_floats(size_t(N) * C, 2, -.2f, 3),
                     rate = random_floats(C, 3), dy = random_floats(size_t(N) * C, 4);
  Streams p = parameters();

  Streams parameters() {
    Streams streams;
    streams.rule = StreamRule::sphere, streams.rate = rate.data(), streams.rate_factor = kFactor;
    return streams;
  }
  std::vector<float> forward() const {
    std::vector<float> y = garbage(x.size());
    sphere_write(y.data(), x.data(), f.data(), p, N, C);
    return y;
  }
  struct Gradients {
    std::vector<float> dx, df, da;
  };
  Gradients backward(std::vector<float> da) const {
    Gradients g{dy, garbage(x.size()), std::move(da)};
    std::vector<float> sums = garbage(size_t(row_blocks(N)) * C);
    sphere_write_backward(g.dx.data(), g.df.data(), sums.data(), x.data(), f.data(), p, N, C);
    sphere_rate_backward(g.da.data(), sums.data(), p, N, C);
    return g;
  }
};

}  // namespace

TEST_CASE("steps on the sphere agree with the textbook", "[ngpt][streams][textbook]") {
  for (const int N : {1, 7, 130})
    for (const int C : {2, 17, 64}) {
      SphereCase c{N, C};
      const std::string name = "sphere vs textbook" + sizes({N, C});
      Doubles y(c.x.size()), dx = y, df = y, a = widen(c.rate);
      const textbook::EigenRate<double> rate{a.data(), double(kFactor)};
      textbook::sphere_forward(y.data(), widen(c.x).data(), widen(c.f).data(), rate, {size_t(N), size_t(C)});
      const std::vector<float> got = c.forward();
      check_close(name + "y", got, y, kTolerance);
      for (int n = 0; n < N; ++n) CHECK(std::abs(length(&got[size_t(n) * C], C) - 1) < 1e-6);

      const std::vector<float> before = random_floats(C, 5);
      Doubles da = widen(before);
      textbook::sphere_backward(dx.data(), df.data(), {da.data(), double(kFactor)}, widen(c.dy).data(),
                                widen(c.x).data(), widen(c.f).data(), rate, {size_t(N), size_t(C)});
      const SphereCase::Gradients g = c.backward(before);
      const double terms = norm_of(widen(c.dy));  // dx and df are at right angles to x and f, so they may nearly cancel
      check_close(name + "dx", g.dx, dx, kTolerance, 1e3 * terms);
      check_close(name + "df", g.df, df, kTolerance, 1e3 * terms);
      check_close(name + "da", g.da, da, kTolerance, 10 * terms);
    }
}

TEST_CASE("a rate of 0 keeps the direction of x, and a rate of 1 takes that of f", "[ngpt][streams]") {
  SphereCase c{3, 9};
  for (const float alpha : {0.f, 1.f, -1.f}) {
    std::ranges::fill(c.rate, alpha / kFactor);
    const std::vector<float> y = c.forward(), &from = alpha == 0 ? c.x : c.f;
    for (int n = 0; n < 3; ++n)
      for (int i = n * 9; i < n * 9 + 9; ++i)
        CHECK(std::abs(double(y[i]) - double(from[i]) / length(&from[size_t(n) * 9], 9)) < 1e-6);
  }
  std::ranges::fill(c.rate, 0.f);
  const SphereCase::Gradients g = c.backward(std::vector<float>(9));
  CHECK(g.df == std::vector<float>(27));
  CHECK(g.da == std::vector<float>(9));  // |a| has the slope 0 at 0, as in PyTorch
}

TEST_CASE("a branch that puts out zeros moves nothing, and NaN does not come out", "[ngpt][streams]") {
  SphereCase c{2, 5};
  std::ranges::fill(c.f, 0.f);
  for (const float y : c.forward()) CHECK(std::isfinite(y));
  const SphereCase::Gradients g = c.backward(std::vector<float>(5));
  CHECK(g.df == std::vector<float>(10));
  for (const float d : joined({g.dx, g.da})) CHECK(std::isfinite(d));
}

TEST_CASE("steps on the sphere are the same for any number of threads, and in place", "[ngpt][streams]") {
  const SphereCase c{700, 40};
  check_same_for_all_threads([&] {
    const SphereCase::Gradients g = c.backward(std::vector<float>(40));
    std::vector<float> in_place = c.x;
    sphere_write(in_place.data(), in_place.data(), c.f.data(), c.p, c.N, c.C);
    CHECK(same_bits(in_place, c.forward()));
    return joined({in_place, g.dx, g.df, g.da});
  });
}

namespace {

Config unit_config(int heads, int D) {
  Config c;
  c.n_head = heads, c.head_dim = D, c.channels = 9, c.vocab_size = 5, c.qk_norm = QkNormKind::unit;
  return resolve(c);
}

struct UnitQkCase {
  Config config;
  int N, H = config.n_head, D = config.head_dim, stride = config.qkv_width();
  std::vector<float> qkv = random_floats(size_t(N) * stride, 1, .2f), weights = {}, kept = {};
  UnitQk p = {};
  UnitQkSaved saved = {};

  UnitQkCase(const Config& c, int rows) : config(c), N(rows) {
    weights = random_floats(size_t(H) * D + 64, 2);
    Layout layout(weights.data());
    p = declare_unit_qk(layout, config, "a");
    kept = garbage(size_t(N) * H * (2 * D + 2) + 256);
    Layout on_kept(kept.data());
    saved = declare_unit_qk_saved(on_kept, config, "a", N);
  }
  QkNormRows rows(std::vector<float>& x) const {
    float* at = x.data();
    return {at, at + H * D, at + 2 * H * D, size_t(stride), size_t(stride), N, N};
  }
};

}  // namespace

TEST_CASE("unit queries and keys agree with the textbook", "[ngpt][attention][textbook]") {
  for (const int N : {1, 5, 150})
    for (const auto& [H, D] : {std::pair{1, 2}, {3, 6}, {2, 33}}) {
      UnitQkCase c(unit_config(H, D), N);
      const std::string name = "unit qk vs textbook" + sizes({N, H, D});
      CHECK(c.p.factor == 3);  // √9
      CHECK(*c.config.attention_scale == double(std::sqrt(float(D))));
      std::vector<float> x = c.qkv, d = random_floats(x.size(), 3), before = random_floats(size_t(H) * D, 4);
      Doubles want = widen(x), want_d = widen(d), da = widen(before), a = widen({c.p.weight, size_t(H) * D});
      const textbook::HeadRows rows{size_t(N), size_t(H), size_t(D), size_t(c.stride)};
      textbook::UnitHeads<double> q, k;
      textbook::unit_heads_forward(&want[0], q, a.data(), 3, rows);
      textbook::unit_heads_forward(&want[H * D], k, a.data(), 3, rows);
      unit_qk_forward(c.rows(x), c.saved, c.p, c.config);
      check_close(name + "y", x, want, kTolerance);

      textbook::unit_heads_backward(&want_d[0], da.data(), q, a.data(), 3, rows);
      textbook::unit_heads_backward(&want_d[H * D], da.data(), k, a.data(), 3, rows);
      const double terms = norm_of(widen(d));
      unit_qk_backward(c.rows(d), {before.data(), 3}, c.saved, c.p, c.config);
      check_close(name + "dx", d, want_d, kTolerance, 1e3 * terms);
      check_close(name + "da", before, da, kTolerance, 10 * terms);
    }
}

TEST_CASE("unit queries and keys are the same for any number of threads; heads of zeros stay 0", "[ngpt][attention]") {
  UnitQkCase c(unit_config(4, 16), 500);
  std::fill_n(c.qkv.data(), 16, 0.f);  // the first head of the first query
  check_same_for_all_threads([&] {
    std::vector<float> x = c.qkv, d = random_floats(x.size(), 3), da(64);
    unit_qk_forward(c.rows(x), c.saved, c.p, c.config);
    unit_qk_backward(c.rows(d), {da.data(), 3}, c.saved, c.p, c.config);
    for (int i = 0; i < 16; ++i) CHECK((x[i] == 0 && d[i] == 0));
    return joined({x, d, da});
  });
}

TEST_CASE("scaled rows agree with the textbook", "[ngpt][embedding][textbook]") {
  for (const int V : {1, 7, 200})
    for (const int C : {1, 7, 65}) {
      const std::string name = "scaled rows vs textbook" + sizes({V, C});
      std::vector<float> weight = random_floats(V * C, 1), a = random_floats(V, 2), d = random_floats(V * C, 3),
                         dweight = random_floats(V * C, 4), da = random_floats(V, 5), unit = garbage(V * C),
                         scale = garbage(V);
      Doubles want(V * C), want_dweight = widen(dweight), want_da = widen(da);
      const UnitRows rows{unit.data(), scale.data(), d.data()};
      scaled_rows_forward(rows, weight.data(), {a.data(), kFactor}, V, C);
      textbook::scaled_rows_forward(want.data(), widen(weight).data(), widen(a).data(), double(kFactor), V, C);
      check_close(name + "y", unit, want, kTolerance);
      std::vector<float> da_alone = da;
      scaled_rows_backward(dweight.data(), {da.data()}, rows, weight.data(), {a.data(), kFactor}, V, C);
      scaled_rows_backward(nullptr, {da_alone.data()}, rows, weight.data(), {a.data(), kFactor}, V, C);
      CHECK(same_bits(da, da_alone));
      textbook::scaled_rows_backward(want_dweight.data(), want_da.data(), widen(d).data(), widen(weight).data(),
                                     widen(a).data(), double(kFactor), V, C);
      check_close(name + "dweight", dweight, want_dweight, kTolerance);
      check_close(name + "da", da, want_da, kTolerance, 1e3 * norm_of(widen(d)));
    }
}

TEST_CASE("vectors of weights get the length 1, as in the textbook", "[ngpt][textbook]") {
  for (const auto& [R, C] : {std::pair{1, 5}, {7, 3}, {40, 130}, {300, 33}})
    for (const bool by_rows : {true, false}) {
      const std::vector<float> start = random_floats(size_t(R) * C, 1, .1f);
      Doubles want = widen(start);
      textbook::normalize_vectors(want.data(), by_rows, R, C);
      check_same_for_all_threads([&, R = R, C = C] {
        std::vector<float> w = start;
        normalize_vectors(w.data(), by_rows ? UnitVectors::rows : UnitVectors::columns, R, C);
        check_close("normed weights vs textbook" + sizes({R, C}), w, want, 3e-7);  // measured: 5e-8
        return w;
      });
    }
  std::vector<float> zeros(12);
  normalize_vectors(zeros.data(), UnitVectors::columns, 3, 4);
  normalize_vectors(zeros.data(), UnitVectors::rows, 3, 4);
  CHECK(zeros == std::vector<float>(12));
}

namespace {

Config ngpt_config() {
  Config c;
  c.placement = "ngpt", c.n_layer = 2, c.n_head = 2, c.channels = 12, c.context = 8, c.vocab_size = 11;
  c.activation = Activation::swiglu, c.bias = c.tied = false, c.qk_norm = QkNormKind::unit;
  c.up_gain = c.logit_gain = c.normed_weights = true, c.output_gate = OutputGate::headwise;
  return c;
}

void check_lengths(const Model& model) {
  for (const TensorSpec& spec : model.table) {
    const UnitVectors vectors = unit_vectors(spec, model.config);
    if (vectors == UnitVectors::none) continue;
    INFO(spec.name);
    const float* w = model.weights.get() + spec.offset;
    const bool by_rows = vectors == UnitVectors::rows;
    const int cols = spec.shape[1], along = by_rows ? cols : spec.shape[0];
    CHECK(along == model.config.channels);
    for (int i = 0; i < static_cast<int>(spec.size()) / along; ++i)
      CHECK(std::abs(length(by_rows ? w + i * cols : w + i, along, by_rows ? 1 : cols) - 1) < 1e-6);
  }
}

}  // namespace

TEST_CASE("the weights that meet the stream are normed, along the stream's channels", "[ngpt]") {
  Config config = ngpt_config();
  const Model model(config);
  std::string rows, columns;
  for (const TensorSpec& spec : model.table) {
    if (spec.layer > 0) continue;
    const UnitVectors vectors = unit_vectors(spec, model.config);
    if (vectors == UnitVectors::rows) rows += spec.part + " ";
    if (vectors == UnitVectors::columns) columns += spec.part + " ";
    CHECK((vectors == UnitVectors::none || !spec.decay));
  }
  CHECK(rows == "embedding.token.weight attention.q.weight attention.k.weight attention.v.weight ffn.gate.weight "
                "ffn.up.weight head.weight ");
  CHECK(columns == "attention.o.weight ffn.down.weight ");
  config.normed_weights = false;
  const Model free(config);
  for (const TensorSpec& spec : free.table) {
    CHECK(unit_vectors(spec, free.config) == UnitVectors::none);
    CHECK(spec.decay == (spec.shape.size() == 2));
  }
}

TEST_CASE("vectors of weights have the length 1 from the start and after each step", "[ngpt][optimizer]") {
  const int B = 2, T = 8;
  const std::vector<int> tokens = random_ints(B * T, 1, 11), targets = random_ints(B * T, 2, 11);
  for (const RunOptimizer& optimizer : run_optimizers()) {
    INFO(optimizer.name);
    StepFunctions functions = kFastStep;
    functions.optimizers = optimizer.rows;
    TrainingState state(Model(ngpt_config()), B, T, functions);
    initialize(state.model, 7);
    check_lengths(state.model);
    const std::vector<float> start(state.model.weights.get(), state.model.weights.get() + state.model.floats);
    for (int step = 0; step < 2; ++step) {
      training_step(state, micro_batches({tokens.data(), targets.data(), B, T}, 1), {}, step, .01);
      check_lengths(state.model);
    }
    CHECK_FALSE(same_bits(start, {state.model.weights.get(), state.model.floats}));
  }
}

TEST_CASE("factors of nGPT start as the paper says", "[ngpt][config]") {
  Config config = ngpt_config();
  config.eigen_rate_init = .25f;
  Model model(config);
  initialize(model, 7);
  const auto& block = model.p.blocks[1];
  const float root = std::sqrt(12.f);
  const auto starts_at = [](const float* a, int n, float factor, float value) {
    for (int i = 0; i < n; ++i) CHECK(std::abs(double(a[i] * factor) - double(value)) < 1e-6);
  };
  starts_at(block.attention.streams.rate, 12, block.attention.streams.rate_factor, .25f);
  starts_at(block.ffn.streams.rate, 12, block.ffn.streams.rate_factor, .25f);
  starts_at(block.attention.unit_qk.weight, 12, block.attention.unit_qk.factor, 1);
  starts_at(block.ffn.up_gain.weight, 2 * model.config.hidden, block.ffn.up_gain.factor, root);
  starts_at(model.p.logit_gain.weight, 11, model.p.logit_gain.factor, 1);
  CHECK(*model.config.attention_scale == double(std::sqrt(6.f)));
}

TEST_CASE("what nGPT is not defined for is refused", "[ngpt][config]") {
  const auto refused = [](void (*change)(Config&), const std::string& part) {
    Config c = ngpt_config();
    change(c);
    CHECK(contains(message_of<ConfigError>([&] { resolve(c); }), part));
  };
  refused([](Config& c) { c.kv_heads = 1; }, "qk-norm unit has one factor for a query and its key");
  refused([](Config& c) { c.experts = 4; }, "up-gain is not defined for experts");
  refused([](Config& c) { c.fix_norm = true; }, "logit-gain makes vectors longer that fix-norm");
  refused([](Config& c) { c.lora_rank = 2; }, "normed-weights changes matrices that lora freezes");
  refused([](Config& c) { c.branch_scale = .5; }, "placement ngpt normalizes what branches put out");
  refused([](Config& c) { c.zero_init = true; }, "zero-init does not go with placement ngpt");
  refused([](Config& c) { c.parametrization = Parametrization::mup, c.base_channels = 6; },
          "mup and completep have no rule for nGPT");
  for (const auto change : {+[](Config& c) { c.tied = true; }, +[](Config& c) { c.placement = "pre"; },
                            +[](Config& c) { c.qk_norm = QkNormKind::none; }, +[](Config& c) { c.up_gain = false; },
                            +[](Config& c) { c.logit_gain = false; }, +[](Config& c) { c.normed_weights = false; }}) {
    Config c = ngpt_config();
    c.parametrization = Parametrization::nugpt, c.base_channels = 6, c.base_layers = 1;
    change(c);
    CHECK(contains(message_of<ConfigError>([&] { resolve(c); }), "nugpt is for nGPT with all of its parts"));
  }
  refused([](Config& c) { c.placement = "pre", c.objective = Objective::pairs, c.encoder_layers = 1; },
          "qk-norm unit is not defined for cross attention");
  refused([](Config& c) { c.block = BlockForm::parallel; }, "block parallel needs a placement");
}
