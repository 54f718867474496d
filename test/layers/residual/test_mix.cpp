// Sums of two inputs with learned factors, and the gate on attention's output. test_model.cpp and
// test_textbook_model.cpp test them inside models.

#include "layers/attention/head_scale.hpp"
#include "layers/attention/output_gate.hpp"
#include "layers/model/initialize.hpp"
#include "layers/residual/mix.hpp"
#include "layers/model/resolve.hpp"
#include "layers/textbook/attention.hpp"
#include "layers/textbook/residual.hpp"
#include "message.hpp"
#include "random_model.hpp"
#include "textbook.hpp"

namespace {

constexpr double kTolerance = 1e-6;

struct MixCase {
  int N, W, stride;  // rows of x and y are `stride` apart
  std::vector<float> factors = {.7f, -.4f}, dfactors = random_floats(2, 1);
  std::vector<float> x = random_floats(N * W, 2), z = random_floats(N * W, 3), rows = random_floats(N * stride, 4);
  std::vector<float> y = random_floats(N * stride, 5), d = rows, dz = random_floats(N * W, 6);

  Mix mix(std::vector<float>& of) { return {&of[0], &of[1]}; }
  void run(bool add) {
    for (int n = 0; n < N; ++n) std::copy_n(&x[n * W], W, &rows[n * stride]);
    mix_forward(y.data(), rows.data(), z.data(), mix(factors), {N, W, size_t(stride)});
    mix_backward(d.data(), dz.data(), add, mix(dfactors), x.data(), z.data(), mix(factors), {N, W, size_t(stride)});
  }
};

// The first W of each `stride` numbers.
std::vector<float> columns(const std::vector<float>& rows, int W, int stride) {
  std::vector<float> kept;
  for (size_t at = 0; at < rows.size(); at += stride) kept.insert(kept.end(), &rows[at], &rows[at] + W);
  return kept;
}

}  // namespace

TEST_CASE("a mix agrees with the textbook, in rows of any stride", "[mix][textbook]") {
  for (const auto& [N, W, stride] : {std::tuple{1, 1, 1}, {7, 17, 17}, {64, 5, 9}, {130, 33, 100}})
    for (const bool add : {false, true}) {
      MixCase c{N, W, stride};
      const std::string name = "mix vs textbook/" + std::to_string(N) + "x" + std::to_string(W);
      Doubles dfactors = widen(c.dfactors), y(N * W), dx(N * W), dz = add ? widen(c.dz) : Doubles(N * W);
      const std::vector<float> dy = columns(c.d, W, stride), rest = c.d;
      Doubles factors = widen(c.factors);
      const textbook::Mix<double> p{&factors[0], &factors[1]}, g{&dfactors[0], &dfactors[1]};
      textbook::mix_forward(y.data(), widen(c.x).data(), widen(c.z).data(), p, y.size());
      textbook::mix_backward(dx.data(), dz.data(), g, widen(dy).data(), widen(c.x).data(), widen(c.z).data(), p,
                             dx.size());
      c.run(add);
      check_close(name + "/y", columns(c.y, W, stride), y, kTolerance);
      check_close(name + "/dx", columns(c.d, W, stride), dx, kTolerance);
      check_close(name + "/dz", c.dz, dz, kTolerance);
      check_close(name + "/dfactors", c.dfactors, dfactors, kTolerance, std::sqrt(N * W));
      for (int i = 0; i < N * stride; ++i)
        if (i % stride >= W) CHECK(c.d[i] == rest[i]);  // other columns stay
    }
}

TEST_CASE("a mix with constant factors needs no x in backward", "[mix]") {
  std::vector<float> z = {1, 2}, x = {4, 8}, y(2), d = {1, -1}, dz(2);
  const Mix half{.constant = .5f};
  mix_forward(y.data(), x.data(), z.data(), half, {1, 2, 2});
  mix_backward(d.data(), dz.data(), false, {}, nullptr, z.data(), half, {1, 2, 2});
  CHECK(y == std::vector<float>{2.5f, 5});
  CHECK(d == std::vector<float>{.5f, -.5f});
  CHECK(dz == std::vector<float>{.5f, -.5f});
}

TEST_CASE("a mix is the same for any number of threads", "[mix]") {
  check_same_for_all_threads([] {
    MixCase c{700, 33, 40};
    c.run(true);
    return joined({c.y, c.d, c.dz, c.dfactors});
  });
}

TEST_CASE("the output gate agrees with the textbook and is the same for any number of threads", "[gate][textbook]") {
  for (const bool headwise : {false, true})
    for (const auto& [N, H, D] : {std::tuple{1, 1, 1}, {7, 3, 5}, {33, 4, 16}, {65, 2, 33}}) {
      const size_t width = size_t(H) * D, gates = headwise ? H : width;
      const std::vector<float> h = random_floats(N * width, 1), dy = random_floats(N * width, 2);
      const std::vector<float> z = random_floats(N * gates, 3, 0, 3);
      Doubles y(N * width), dh = widen(dy), dz(N * gates);
      textbook::output_gate_forward(y.data(), widen(h).data(), widen(z).data(), N, H, D, headwise);
      textbook::output_gate_backward(dh.data(), dz.data(), widen(h).data(), widen(z).data(), N, H, D, headwise);
      const auto run = [&, N = N, H = H, D = D] {
        std::vector<float> got_y = garbage(N * width), d = dy, got_dz = garbage(N * gates);
        output_gate_forward(got_y.data(), h.data(), z.data(), N, H, D, headwise);
        output_gate_backward(d.data(), got_dz.data(), h.data(), z.data(), N, H, D, headwise);
        return std::tuple{got_y, d, got_dz};
      };
      const auto [got_y, d, got_dz] = run();
      const std::string name = std::string("gate vs textbook/") + (headwise ? "headwise " : "") + std::to_string(N);
      check_close(name + "/y", got_y, y, kTolerance);
      check_close(name + "/dh", d, dh, kTolerance);
      check_close(name + "/dz", got_dz, dz, kTolerance, std::sqrt(N * width));
      check_same_for_all_threads([&] { return std::get<2>(run()); });
    }
}

TEST_CASE("the head scale agrees with the textbook and is the same for any number of threads", "[gate][textbook]") {
  for (const auto& [N, H, D] : {std::tuple{1, 1, 1}, {7, 3, 5}, {65, 4, 16}, {200, 2, 33}}) {
    const size_t width = size_t(H) * D;
    std::vector<float> c = random_floats(H, 1, 1, .3f), start = random_floats(H, 2);
    const std::vector<float> x = random_floats(N * width, 3), dy = random_floats(N * width, 4);
    Doubles y(N * width), dx(N * width), dc = widen(start);
    textbook::head_scale_forward(y.data(), widen(x).data(), widen(c).data(), N, H, D);
    textbook::head_scale_backward(dx.data(), dc.data(), widen(dy).data(), widen(x).data(), widen(c).data(), N, H, D);
    const auto run = [&, N = N, H = H, D = D] {
      std::vector<float> got_y = garbage(N * width), d = dy, got_dc = start;
      head_scale_forward(got_y.data(), x.data(), {c.data()}, N, H, D);
      head_scale_backward(d.data(), {got_dc.data()}, x.data(), {c.data()}, N, H, D);
      return std::tuple{got_y, d, got_dc};
    };
    const auto [got_y, d, got_dc] = run();
    const std::string name = "head scale vs textbook/" + std::to_string(N);
    check_close(name + "/y", got_y, y, kTolerance);
    check_close(name + "/dx", d, dx, kTolerance);
    check_close(name + "/dc", got_dc, dc, kTolerance, std::sqrt(N * D));
    check_same_for_all_threads([&] { return std::get<2>(run()); });
  }
}

TEST_CASE("the factors of a stream mix go from those of the first block to those of the last", "[mix][config]") {
  Config c;
  c.n_layer = 4, c.vocab_size = 11, c.stream_mix = true, c.value_residual = ValueResidual::learned;
  std::vector<double> own, first;
  for (const TensorSpec& spec : Model(resolve(c), false).table) {
    if (spec.part == "stream_mix.own") own.push_back(spec.start.mean);
    if (spec.part == "stream_mix.first") first.push_back(spec.start.mean);
    if (spec.part.starts_with("attention.value_mix")) CHECK(spec.start.mean == .5f);
    if (spec.part.starts_with("attention.value_mix")) CHECK(spec.layer > 0);
    if (spec.role == Role::mix) CHECK_FALSE(spec.decay);
  }
  REQUIRE(own.size() == 4);
  for (int l = 0; l < 4; ++l) {  // nanochat's init_weights
    CHECK(own[l] == Approx(1.15 - .10 * l / 3));
    CHECK(first[l] == Approx(.20 - .15 * l / 3));
  }
}

TEST_CASE("with --zero-init branches start at 0, and then learn", "[config][model]") {
  Config c;
  c.n_layer = 2, c.n_head = 2, c.channels = 16, c.context = 8, c.vocab_size = 11, c.zero_init = true;
  Model model(resolve(c));
  initialize(model, 7);
  const std::vector<int> tokens = random_ints(16, 1, 11), targets = random_ints(16, 2, 11);
  const Activations a = allocate_activations(model.config, 2, 8, true);
  model_loss_and_gradients(model, a, {tokens.data(), targets.data(), 2, 8}, 1, {});
  CHECK(same_bits({a.blocks[1].ffn.y, 16 * 16}, {a.x, 16 * 16}));
  for (const TensorSpec& spec : model.table) {
    INFO(spec.name);
    const bool output = spec.role == Role::o || spec.role == Role::ffn_out;
    const std::span<const float> w{&model.weights[spec.offset], spec.size()};
    const std::span<const float> dw{&model.gradients[spec.gradient], spec.size()};
    if (spec.shape.size() == 2) CHECK((norm_of(widen(w)) == 0) == output);
    if (output) CHECK(norm_of(widen(dw)) > 0);
    if (spec.role == Role::qk || spec.role == Role::ffn_in) CHECK(norm_of(widen(dw)) == 0);  // from the second step on
  }
  const auto refusal = [&](const char* placement) {
    return message_of<std::invalid_argument>([&] { c.placement = placement, resolve(c); });
  };
  for (const char* placement : {"sandwich", "reordered"}) CHECK(contains(refusal(placement), "normalizes the output"));
  CHECK(contains(refusal("rezero"), "would both stay at 0"));
  CHECK(refusal("layerscale") == "");
}
