#include "layers/config.hpp"

#include <cmath>
#include <limits>

#include "check.hpp"

namespace {

// A config with a vocabulary, and what else a test changes in it.
template <class Change>
Config with(Change change) {
  Config config;
  config.vocab_size = 100;
  change(config);
  return config;
}

// The message with which something is refused.
template <class F>
std::string complaint(F f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}
template <class Change>
std::string refusal(Change change) {
  return complaint([&] { resolve(with(change)); });
}

bool says(const std::string& message, const std::string& words) {
  return message.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("the table of placements", "[config]") {
  struct Row {
    const char* name;
    bool in, out, sum, final;
  };
  for (const auto& [name, in, out, sum, final] : {Row{"post", 0, 0, 1, 0},
                                                  {"pre", 1, 0, 0, 1},
                                                  {"sandwich", 1, 1, 0, 1},
                                                  {"deepnorm", 0, 0, 1, 0},
                                                  {"reordered", 0, 1, 0, 1},
                                                  {"none", 0, 0, 0, 0}}) {
    INFO(name);
    const Placement& p = placement_row(name);
    CHECK(p.name == std::string(name));
    CHECK(p.norm_in == in);
    CHECK(p.norm_out == out);
    CHECK(p.norm_sum == sum);
    CHECK(p.final_norm == final);
    CHECK(p.skip(8) == (p.name == std::string("deepnorm") ? 2 : 1));          // (2·8)^¼
    CHECK(p.init.gain(32) == (p.name == std::string("deepnorm") ? .25 : 1));  // (8·32)^-¼
  }
  CHECK(placements().size() == 6);
}

TEST_CASE("placements answer to their usual names, and misspelled ones name the nearest", "[config]") {
  for (const auto& [alias, name] : {std::pair{"post-ln", "post"},
                                    {"pre-ln", "pre"},
                                    {"peri-ln", "sandwich"},
                                    {"peri", "sandwich"},
                                    {"olmo2", "reordered"},
                                    {"deepnet", "deepnorm"}})
    CHECK(resolve(with([alias = alias](Config& c) { c.placement = alias; })).placement == name);
  CHECK(says(refusal([](Config& c) { c.placement = "deepnrom"; }),
             "unknown placement 'deepnrom': did you mean 'deepnorm'?"));
  CHECK(says(unknown_name("norm", "rsnorm", {"layernorm", "rmsnorm"}),
             "did you mean 'rmsnorm'? (one of layernorm rmsnorm)"));
  CHECK_THROWS_AS(value_of(kActivations, "activation", "gelo"), std::invalid_argument);
  CHECK(value_of(kActivations, "activation", "gelu-tanh") == Activation::gelu_tanh);
  CHECK(name_of(kPositions, Position::rope) == std::string("rope"));
}

TEST_CASE("what is left open follows from the rest", "[config]") {
  Config c = resolve(with([](Config& c) { c.channels = 96, c.n_head = 6; }));
  CHECK(c.kv_heads == 6);
  CHECK(c.head_dim == 16);
  CHECK(c.hidden == 4 * 96);
  CHECK(*c.norm_bias);
  CHECK(*c.final_norm);
  CHECK(*c.skip_scale == 1);
  CHECK(*c.init_gain == 1);
  CHECK(*c.residual_gain);

  c = resolve(with([](Config& c) {
    c.placement = "deepnorm", c.norm = NormKind::rmsnorm, c.n_layer = 6, c.activation = Activation::swiglu;
  }));
  CHECK(c.hidden == 352);  // 8/3 · 128, rounded up to a multiple of 32
  CHECK_FALSE(*c.norm_bias);
  CHECK_FALSE(*c.final_norm);
  CHECK(*c.skip_scale == Approx(1.8612).epsilon(1e-4));  // NORMS.md's constants for 6 layers
  CHECK(*c.init_gain == Approx(.3799).epsilon(1e-4));
  CHECK_FALSE(*c.residual_gain);
  CHECK_FALSE(*resolve(with([](Config& c) { c.bias = false; })).norm_bias);

  const Config again = resolve(c);
  CHECK(again.hidden == c.hidden);
  CHECK(again.skip_scale == c.skip_scale);
}

TEST_CASE("initialisation is an axis of its own", "[config]") {
  const auto deviation = [](const Config& c, Role role) {
    return weight_start(resolve(c), role, 30, 70).deviation;
  };
  constexpr Role all[] = {Role::qk, Role::v, Role::o, Role::ffn_in, Role::ffn_out};
  for (const Role role : all) {
    const bool output = role == Role::o || role == Role::ffn_out;
    const float gpt2 = output ? .02f / std::sqrt(8.f) : .02f,
                xavier = std::sqrt(.02f);  // √(2/(30 + 70)); 4 layers
    CHECK(deviation(with([](Config& c) { c.placement = "post", c.init = InitChoice::gpt2; }), role) ==
          Approx(gpt2));
    CHECK(deviation(with([](Config& c) { c.init = InitChoice::xavier; }), role) == Approx(xavier));
    CHECK(deviation(with([](Config& c) { c.residual_gain = false; }), role) == Approx(.02f));
    CHECK(deviation(with([](Config& c) { c.placement = "post", c.init_gain = 3; }), role) ==
          Approx(role == Role::qk ? .02f : .06f));
  }
  CHECK(deviation(with([](Config& c) { c.init = InitChoice::xavier, c.init_gain = 3; }), Role::embedding) ==
        .02f);
}

TEST_CASE("values that make no sense are refused, with what to do", "[config]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(says(refusal([](Config& c) { c.n_head = 3; }), "--heads 3 does not divide --channels 128"));
  CHECK(refusal([](Config& c) { c.n_head = 3, c.head_dim = 40; }) == "");
  CHECK(says(refusal([](Config& c) { c.kv_heads = 3; }), "--kv-heads 3 does not divide --heads 4"));
  CHECK(says(refusal([](Config& c) { c.kv_heads = -1; }), "--kv-heads"));
  CHECK(says(refusal([](Config& c) { c.head_dim = 7, c.position = Position::rope; }), "even head dimension"));
  CHECK(says(refusal([](Config& c) { c.n_layer = 0; }), "--layers is 0: must be 1 to"));
  CHECK(says(refusal([](Config& c) { c.vocab_size = 0; }), "--vocab-size"));
  CHECK(says(refusal([](Config& c) { c.context = -5; }), "--context"));
  CHECK(says(refusal([](Config& c) { c.dropout = 1; }), "--dropout"));
  CHECK(says(refusal([&](Config& c) { c.dropout = nan; }), "--dropout"));
  CHECK(says(refusal([&](Config& c) { c.norm_eps = nan; }), "--norm-eps"));
  CHECK(says(refusal([](Config& c) { c.skip_scale = -1; }), "--skip-scale"));
  CHECK(says(refusal([&](Config& c) { c.init_gain = double(nan); }), "--init-gain"));
}
