#include "layers/training/run_optimizer.hpp"

#include <bit>
#include <map>
#include <numeric>
#include <tuple>

#include "check.hpp"
#include "layers/textbook/optimizers.hpp"
#include "reference.hpp"

namespace {

constexpr double kTolerance = 1e-6;  // measured: at most 2.6e-7

std::string numbered(std::string name, int i) {
  name += std::to_string(i);
  return name;
}

float number(const Reference& ref, const char* key) { return static_cast<float>(ref.number(key)); }

// The part of a buffer that a row of the table describes.
std::span<float> slice(std::vector<float>& buffer, const TensorSpec& spec) {
  return std::span(buffer).subspan(spec.offset, spec.size());
}

// Tensors with an optimizer.
struct Tensors {
  std::vector<TensorSpec> table;
  std::vector<float> w, g, state, scratch;
  Optimizers rows;

  Tensors(std::vector<TensorSpec> tensors, size_t floats, Optimizers optimizers = kAdamWAlone)
      : table(std::move(tensors)), w(floats), g(floats), rows(optimizers) {
    assign_optimizers(table, rows);
    state.resize(state_floats(table)), scratch.resize(scratch_floats(table));
  }
  void step(const OptimizerOptions& options, const UpdateStep& now) {
    for (const Optimizer* row : rows)
      row->update({w.data(), state.data(), g.data(), scratch.data()}, tensors_of(table, *row), options, now);
  }
  std::span<const float> slot(const TensorSpec& spec, size_t number) const {
    const TensorSpec slot = state_table(spec)[number];
    return std::span(state).subspan(slot.offset, slot.size());
  }
};

// A table of a large matrix and some small tensors; one of them is not trained.
std::vector<TensorSpec> large_table(size_t& floats) {
  Layout layout;
  layout.enter_layer(0);
  layout.take("matrix", Role::ffn_in, {301, 333});
  layout.take("vector", Role::ffn_in, {77});
  layout.take_joined({{"kept", Role::norm, {5, 5}, {}, true, false}});
  layout.take("last", Role::ffn_in, {40, 1000});
  floats = layout.size();
  return layout.table();
}

}  // namespace

TEST_CASE("AdamW agrees with PyTorch over several steps", "[optimizer]") {
  const Reference ref("optimizer", "adamw");
  const int steps = ref.integer("steps"), tensors = ref.integer("tensors");
  const std::vector<float> lr = ref.floats("lr");
  const OptimizerOptions options{number(ref, "beta1"), number(ref, "beta2"), number(ref, "eps"),
                                 number(ref, "weight_decay")};
  std::vector<int> shape[3] = {{5, 7}, {9}, {2, 3, 4}};
  REQUIRE(tensors == 3);

  Layout layout;
  for (int i = 0; i < tensors; ++i) layout.take(numbered("w", i), Role::ffn_in, shape[i]);
  Tensors tensors_now(layout.table(), layout.size());
  const std::vector<TensorSpec>& table = tensors_now.table;
  std::vector<float>&w = tensors_now.w, &g = tensors_now.g;
  std::vector<float> gradients[3];
  for (int i = 0; i < tensors; ++i) {
    REQUIRE(table[i].decay == (ref.integer(numbered("decay", i)) != 0));
    const std::vector<float> start = ref.floats(numbered("w", i));
    std::copy(start.begin(), start.end(), slice(w, table[i]).begin());
    gradients[i] = ref.floats(numbered("g", i));
  }
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < tensors; ++i)
      std::copy_n(gradients[i].begin() + step * table[i].size(), table[i].size(), slice(g, table[i]).begin());
    tensors_now.step(options, {lr[step], 1, step + 1});
    for (const char* name : {"after", "m", "v"}) {
      // The first row of every tensor has gradients 1e9 times smaller, and the second has none. The relative errors of
      // these two rows and of the rest are checked separately.
      std::vector<float> got[3];
      std::vector<double> want[3];
      for (int i = 0; i < tensors; ++i) {
        const std::vector<double> all_steps = ref.doubles(numbered(name, i));
        const size_t row = table[i].size() / table[i].shape[0];
        const std::span<const float> now =
            *name == 'a' ? slice(w, table[i]) : tensors_now.slot(table[i], *name == 'v');
        for (size_t e = 0; e < table[i].size(); ++e) {
          got[std::min<size_t>(e / row, 2)].push_back(now[e]);
          want[std::min<size_t>(e / row, 2)].push_back(all_steps[step * table[i].size() + e]);
        }
      }
      const std::string at = std::string("optimizer/adamw/") + name + " of step " + std::to_string(step);
      check_close(at + ", faint", got[0], want[0], kTolerance);
      check_close(at + ", no gradient", got[1], want[1], kTolerance);
      check_close(at, got[2], want[2], kTolerance);
    }
  }
}

namespace {

// A case of test/reference/optimizer and the options that it has.
struct Rule {
  const char* name;
  const char* kind;
  MuonScale scale = MuonScale::rms;
  PolarIteration polar = PolarIteration::newton_schulz;
};
constexpr auto kSpectral = MuonScale::spectral;
const Rule kRules[] = {{"sgd", "sgd"},
                       {"nesterov", "sgd"},
                       {"lion", "lion"},
                       {"adamw-cautious", "adamw"},
                       {"lion-cautious", "lion"},
                       {"adafactor", "adafactor"},
                       {"adafactor-small", "adafactor"},
                       {"adafactor-cautious", "adafactor"},
                       {"muon", "muon", kSpectral},
                       {"muon-rms", "muon"},
                       {"muon-plain", "muon", kSpectral},
                       {"muon-polar-express", "muon", MuonScale::rms, PolarIteration::polar_express},
                       {"muon-cautious", "muon"},
                       {"normuon", "normuon"}};

OptimizerOptions options_of(const Rule& rule, const Reference& ref) {
  const RunOptimizer& row = run_optimizer(rule.kind);
  OptimizerOptions o;
  o.beta2 = row.beta2, o.momentum = row.momentum, o.nesterov = row.nesterov;
  o.weight_decay = number(ref, "weight_decay");
  o.muon_scale = rule.scale, o.polar = rule.polar;
  const std::string name = rule.name;
  if (name == "nesterov") o.nesterov = true;
  if (name == "muon-plain") o.nesterov = false;
  o.cautious_decay = name.ends_with("-cautious");
  return o;
}

// Matrices that are wide, tall and square, and a vector.
std::vector<TensorSpec> rule_table(int tensors, size_t& floats) {
  const std::vector<int> shapes[] = {{4, 9}, {11, 5}, {6, 6}, {7}};
  Layout layout;
  layout.enter_layer(0);
  for (int i = 0; i < tensors; ++i) layout.take(numbered("w", i), Role::ffn_in, shapes[i]);
  floats = layout.size();
  return layout.table();
}

}  // namespace

TEST_CASE("ten steps of each optimizer agree with PyTorch on every tensor", "[optimizer]") {
  for (const Rule& rule : kRules) {
    const Reference ref("optimizer", rule.name);
    size_t floats;
    const std::vector<TensorSpec> table = rule_table(ref.integer("tensors"), floats);
    Tensors x(table, floats, run_optimizer(rule.kind).rows);
    const std::vector<float> w = ref.floats("w"), g = ref.floats("g"), lr = ref.floats("lr");
    const std::vector<double> after = ref.doubles("after");
    size_t at = 0;
    for (const TensorSpec& spec : table) {
      std::copy_n(&w[at], spec.size(), slice(x.w, spec).begin());
      at += spec.size();
    }
    const std::string name = std::string("optimizer/") + rule.name + "/";
    for (int step = 0; step < ref.integer("steps"); ++step) {
      at = step * w.size();
      for (const TensorSpec& spec : table) {
        std::copy_n(&g[at], spec.size(), slice(x.g, spec).begin());
        at += spec.size();
      }
      x.step(options_of(rule, ref), {lr[step], 1, step + 1});
      at = step * w.size();
      for (const TensorSpec& spec : table) {
        check_close(name + spec.name + " of step " + std::to_string(step), slice(x.w, spec),
                    std::vector(&after[at], &after[at] + spec.size()), kTolerance);
        at += spec.size();
      }
    }
    std::map<std::string, size_t> place;
    for (const TensorSpec& slot : state_table(x.table)) {
      const std::string key = slot.name.substr(0, slot.name.find('.'));
      const std::vector<double> want = ref.doubles(key);
      check_close(name + slot.name, {&x.state[slot.offset], slot.size()},
                  std::vector(&want[place[key]], &want[place[key]] + slot.size()), kTolerance);
      place[key] += slot.size();
    }
  }
}

TEST_CASE("Newton-Schulz sends all singular values near 1, and Polar Express nearer", "[optimizer][long]") {
  // A matrix of several panels with known singular values: rows of a Hadamard matrix, each scaled to its own length.
  constexpr int n = 256, m = 512;
  for (const auto& [polar, low, high] : {std::tuple{PolarIteration::newton_schulz, .68, 1.14},
                                         {PolarIteration::polar_express, .85, 1.13}})
    for (const bool tall : {false, true}) {
      Layout layout;
      layout.enter_layer(0);
      layout.take("w", Role::ffn_in, tall ? std::vector{m, n} : std::vector{n, m});
      Tensors x(layout.table(), layout.size(), run_optimizer("muon").rows);
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < m; ++j) {
          const float sign = std::popcount(static_cast<unsigned>(i & j)) % 2 ? -1.f : 1.f;
          x.g[tall ? j * n + i : i * m + j] = sign * std::exp(-3.f * i / n);
        }
      x.step({.weight_decay = 0, .muon_scale = MuonScale::spectral, .polar = polar}, {-1, 1, 1});
      double largest = 0, smallest = 1e9;
      for (int i = 0; i < n; ++i) {
        double squares = 0;
        for (int j = 0; j < m; ++j) squares += std::pow(double(x.w[tall ? j * n + i : i * m + j]), 2);
        const double sigma = std::sqrt(squares) / (tall ? std::sqrt(2.) : 1);
        largest = std::max(largest, sigma), smallest = std::min(smallest, sigma);
      }
      INFO(smallest << " to " << largest);
      CHECK(smallest > low);
      CHECK(largest < high);
    }
}

TEST_CASE("Adafactor agrees with the textbook on a matrix of several panels", "[optimizer]") {
  size_t floats;
  const std::vector<TensorSpec> table = large_table(floats);
  Tensors x(table, floats, run_optimizer("adafactor").rows);
  x.w = random_floats(floats, 1);
  const TensorSpec& spec = x.table[0];
  const int rows = spec.shape[0], cols = spec.shape[1];
  REQUIRE(spec.size() > 2 * kStrip);
  std::vector<double> w = widen(slice(x.w, spec)), r(rows), c(cols);
  for (const int t : {1, 2, 3}) {
    x.g = random_floats(floats, 2 + t);
    x.step({}, {.01f, .5f, t});
    textbook::adafactor_step<double>(w.data(), r.data(), c.data(), widen(slice(x.g, spec)).data(), rows, cols, .1f,
                                     {.01f, .5, t});
    check_close("optimizer/adafactor/panels", slice(x.w, spec), w, kTolerance);
  }
  check_close("optimizer/adafactor/panels/row_var", x.slot(spec, 0), r, kTolerance);
  check_close("optimizer/adafactor/panels/col_var", x.slot(spec, 1), c, kTolerance);
}

// PyTorch's default floor for the mean of v makes the steps of gradients below 3e-4 larger.
TEST_CASE("Adafactor's step does not depend on the size of the gradients", "[optimizer]") {
  size_t floats;
  const std::vector<TensorSpec> table = large_table(floats);
  const auto step = [&](float factor) {
    Tensors x(table, floats, run_optimizer("adafactor").rows);
    x.w = random_floats(floats, 1);
    for (const int t : {1, 2}) {
      x.g = random_floats(floats, 2 + t);
      x.step({}, {.01f, factor, t});
    }
    return x.w;
  };
  CHECK(same_bits(step(0x1p-20f), step(1)));
}

TEST_CASE("clipping agrees with PyTorch", "[optimizer]") {
  for (const std::string& name : Reference::cases("optimizer")) {
    if (name.rfind("clip", 0) != 0) continue;
    const Reference ref("optimizer", name);
    Layout layout;
    std::vector<float> g;
    std::vector<double> want;
    for (int i = 0; i < ref.integer("tensors"); ++i) {
      const std::vector<float> tensor = ref.floats(numbered("g", i));
      layout.take(numbered("g", i), Role::ffn_in, {static_cast<int>(tensor.size())});
      g.resize(layout.size(), 1e3f);  // the padding between tensors must not count
      std::copy(tensor.begin(), tensor.end(), slice(g, layout.table()[i]).begin());
      const std::vector<double> clipped = ref.doubles(numbered("clipped", i));
      want.insert(want.end(), clipped.begin(), clipped.end());
    }
    const double norm = gradient_norm(g.data(), layout.table());
    check_error("optimizer/" + name + "/norm", std::abs(norm / ref.number("norm") - 1), kTolerance);
    const float factor = clip_factor(norm, ref.number("max_norm"));
    CHECK((factor == 1) == (norm < ref.number("max_norm")));
    std::vector<float> got;
    for (const TensorSpec& spec : layout.table())
      for (const float x : slice(g, spec)) got.push_back(x * factor);
    check_close("optimizer/" + name + "/clipped", got, want, kTolerance);
  }
  CHECK(clip_factor(1e6, 0) == 1);  // 0 never clips
}

TEST_CASE("the gradient norm is summed in double over trained tensors", "[optimizer]") {
  size_t floats;
  const std::vector<TensorSpec> table = large_table(floats);
  std::vector<float> g(floats, 1e6f);
  double want = 0;
  for (const TensorSpec& spec : table) {
    if (!spec.trained) continue;
    const std::vector<float> values = random_floats(spec.size(), spec.offset);
    std::copy(values.begin(), values.end(), slice(g, spec).begin());
    for (const float x : values) want += double(x) * double(x);
  }
  CHECK(std::abs(gradient_norm(g.data(), table) / std::sqrt(want) - 1) < 1e-13);
}

TEST_CASE("AdamW decays the tensors that the table marks and does not touch untrained ones", "[optimizer]") {
  size_t floats;
  const std::vector<TensorSpec> table = large_table(floats);
  Tensors x(table, floats);
  std::ranges::fill(x.w, 2.f);
  for (const TensorSpec& spec : table)
    if (!spec.trained) std::fill_n(x.g.begin() + spec.offset, spec.size(), 1.f);
  x.step({.weight_decay = .5f}, {.1f, 1, 1});
  std::vector<float> want(floats, 2);
  for (const TensorSpec& spec : table)
    if (spec.trained && spec.decay) std::fill_n(want.begin() + spec.offset, spec.size(), 2 * (1 - .1f * .5f));
  CHECK(same_bits(x.w, want));
  CHECK(same_bits(x.state, std::vector<float>(x.state.size())));
}

TEST_CASE("AdamW's gradient factor scales the gradient", "[optimizer]") {
  size_t floats;
  const std::vector<TensorSpec> table = large_table(floats);
  const std::vector<float> g = random_floats(floats, 1);
  std::vector<float> quarter = g;
  for (float& x : quarter) x *= .25f;
  const auto step = [&](const std::vector<float>& gradients, float factor) {
    Tensors x(table, floats);
    x.w = random_floats(floats, 2), x.g = gradients;
    for (const int t : {1, 2}) x.step({}, {.01f, factor, t});
    return joined({x.w, x.state});
  };
  CHECK(same_bits(step(g, .25f), step(quarter, 1)));
}

TEST_CASE("the optimizer is the same for any number of threads", "[optimizer][long]") {
  size_t floats;
  const std::vector<TensorSpec> table = large_table(floats);
  const std::vector<float> g = random_floats(floats, 1);
  for (const RunOptimizer& optimizer : run_optimizers())
    check_same_for_all_threads([&] {
      Tensors x(table, floats, optimizer.rows);
      x.w = random_floats(floats, 2), x.g = g;
      const double norm = gradient_norm(g.data(), table);
      x.step({}, {.01f, clip_factor(norm, 1), 1});
      return joined({x.w, x.state, std::vector{static_cast<float>(norm)}});
    });
}

namespace {

// The moments of the first tensor as floats.
std::vector<float> moments(const Tensors& x, size_t number) {
  return read_floats(state_table(x.table[0])[number], x.state.data());
}

Tensors vector_with_moments_in_bf16(int size) {
  Layout layout;
  layout.take("vector", Role::ffn_in, {size});
  return Tensors(layout.table(), layout.size(), run_optimizer("adamw").rows_with(NumberType::bf16));
}

}  // namespace

TEST_CASE("moments in bf16 are one of two neighbors, and right on average", "[optimizer][moments]") {
  constexpr int n = 1 << 17;
  Tensors x = vector_with_moments_in_bf16(n), other = x;
  REQUIRE(x.state.size() == n);
  std::ranges::fill(x.g, -1.2345f);
  x.step({.beta1 = .9, .beta2 = .95}, {.01f, 1, 1});
  const double exact[] = {-.12345, .05 * 1.2345 * 1.2345};
  std::vector<float> ups[2];
  for (const size_t number : {0, 1}) {
    const std::vector<float> stored = moments(x, number);
    const auto [low, high] = std::ranges::minmax(stored);
    CHECK(low < exact[number]);
    CHECK(high > exact[number]);
    CHECK(high - low == Approx(std::abs(exact[number]) / 200).epsilon(.5));  // one step of 8 bits
    for (const float m : stored) {
      REQUIRE((m == low || m == high));
      ups[number].push_back(m == high);
    }
    const double deviation = (high - low) / 2 / std::sqrt(n);
    CHECK(std::accumulate(stored.begin(), stored.end(), 0.) / n == Approx(exact[number]).margin(4 * deviation));
  }
  // The roundings of both moments, of neighbors and of the next step are independent.
  const auto mean = [](const std::vector<float>& v) { return std::accumulate(v.begin(), v.end(), 0.) / n; };
  const auto correlation = [&](const std::vector<float>& a, const std::vector<float>& b, int shift) {
    const double of_a = mean(a), of_b = mean(b);
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += (a[i] - of_a) * (b[(i + shift) % n] - of_b);
    return sum / n / std::sqrt(of_a * (1 - of_a) * of_b * (1 - of_b));
  };
  std::ranges::fill(other.g, -1.2345f);
  other.step({.beta1 = .9, .beta2 = .95}, {.01f, 1, 1 << 20});  // another step with the same numbers
  std::vector<float> later = moments(other, 0);
  const float high = std::ranges::max(later);
  for (float& m : later) m = m == high;
  CHECK(std::abs(correlation(ups[0], ups[1], 0)) < 4 / std::sqrt(n));
  CHECK(std::abs(correlation(ups[0], later, 0)) < 4 / std::sqrt(n));
  for (const int shift : {1, 8, 1 << 15}) CHECK(std::abs(correlation(ups[0], ups[0], shift)) < 4 / std::sqrt(n));
}

// Rounding to the nearest number would lose every one of these changes, which are below a half of a step of 8 bits.
TEST_CASE("moments in bf16 follow changes too small for their precision", "[optimizer][moments]") {
  constexpr int n = 1 << 12;
  Tensors x = vector_with_moments_in_bf16(n);
  std::ranges::fill(x.g, 1.f);
  for (int t = 1; t <= 1000; ++t) x.step({.beta1 = .999, .beta2 = .9995}, {0, 1, t});
  const std::vector<float> m = moments(x, 0), v = moments(x, 1);
  CHECK(std::accumulate(m.begin(), m.end(), 0.) / n == Approx(1 - std::pow(.999, 1000)).epsilon(.002));
  CHECK(std::accumulate(v.begin(), v.end(), 0.) / n == Approx(1 - std::pow(.9995, 1000)).epsilon(.002));
}

TEST_CASE("a weight moves by its moments before they are rounded", "[optimizer][moments]") {
  size_t floats;
  const std::vector<TensorSpec> table = large_table(floats);
  const Optimizers rows = run_optimizer("adamw").rows_with(NumberType::bf16);
  Tensors in_floats(table, floats), in_bf16(table, floats, rows);
  for (Tensors* x : {&in_floats, &in_bf16}) {
    x->w = random_floats(floats, 2), x->g = random_floats(floats, 1);
    x->step({}, {.01f, 1, 1});
  }
  CHECK(same_bits(in_floats.w, in_bf16.w));
  CHECK(in_bf16.state.size() < in_floats.state.size() * 51 / 100);
  for (Tensors* x : {&in_floats, &in_bf16}) x->step({}, {.01f, 1, 2});
  const std::vector<double> want(in_floats.w.begin(), in_floats.w.end());
  check_close("optimizer/moments in bf16/weights", in_bf16.w, want, 5e-5);
  check_same_for_all_threads([&] {
    Tensors x(table, floats, rows);
    x.w = random_floats(floats, 2), x.g = random_floats(floats, 1);
    x.step({}, {.01f, 1, 1});
    return joined({x.w, x.state});
  });
}

TEST_CASE("the learning-rate schedules: warmup, decay, constant", "[optimizer]") {
  LearningRate schedule{.lr = 1, .min_lr = .2, .warmup = 10, .schedule = Schedule::cosine};
  const int steps = 110;
  for (const Schedule kind : {Schedule::cosine, Schedule::linear, Schedule::constant}) {
    schedule.schedule = kind;
    CHECK(schedule.at(0, steps) == Approx(1 / 11.));  // never 0: the first step would be lost
    CHECK(schedule.at(9, steps) == Approx(10 / 11.));
    CHECK(schedule.at(10, steps) == Approx(1));
    const bool falls = kind != Schedule::constant;
    CHECK(schedule.at(60, steps) == Approx(falls ? .6 : 1).margin(.01));
    CHECK(schedule.at(109, steps) == Approx(falls ? .2 : 1).margin(.01));
    if (falls) CHECK(schedule.at(1000, steps) == Approx(.2));
  }
  schedule.schedule = Schedule::inverse_sqrt;
  CHECK(schedule.at(9, steps) == Approx(10 / 11.));
  CHECK(schedule.at(10, steps) == 1);
  CHECK(schedule.at(43, steps) == Approx(.5));    // 11/44 is a quarter
  CHECK(schedule.at(1099, steps) == Approx(.1));  // it goes on, below min_lr
  schedule.schedule = Schedule::wsd;
  CHECK(schedule.at(9, steps) == Approx(10 / 11.));
  for (const int step : {10, 60, 98}) CHECK(schedule.at(step, steps) == 1);
  CHECK(schedule.at(109, steps) == Approx(.2 + .8 / 11));  // a tenth of 110 steps decays
  CHECK(schedule.at(110, steps) == Approx(.2));
  schedule.decay = 50;
  CHECK(schedule.at(60, steps) == 1);
  CHECK(schedule.at(85, steps) == Approx(.6));
  schedule.decay = 1000;  // cut to what is left after the warm-up
  CHECK(schedule.at(60, steps) == Approx(.6));
  schedule.schedule = Schedule::cosine;
  CHECK(schedule.at(35, steps) == Approx(.6 + .4 * std::sqrt(.5)).margin(.01));  // cosine falls slowly at first
  CHECK(schedule.at(1000, 5) == Approx(6 / 11.));  // it ended within the warm-up, and the last rate stays
  schedule.schedule = Schedule::constant;
  CHECK(schedule.at(1000, 5) == Approx(1));
  schedule.schedule = Schedule::cosine;
  schedule.warmup = 0;
  CHECK(schedule.at(0, steps) == Approx(1));
  schedule.warmup_percent = 10;
  CHECK(schedule.warmup_steps(steps) == 11);
  CHECK(schedule.at(10, steps) == Approx(11 / 12.));
  CHECK(schedule.at(11, steps) == Approx(1));
  CHECK(schedule.at(0, 4) == Approx(1));  // a tenth of 4 steps is none
}
