// Whole models with the wiring of published ones: properties of all of them, and settings without effect.
// test_model.cpp (PyTorch) and test_textbook_model.cpp check their numbers.

#include "generated.hpp"
#include "layers/model/initialize.hpp"
#include "layers/training/diagnostics.hpp"
#include "layers/embedding/position.hpp"
#include "message.hpp"
#include "program.hpp"
#include "reference.hpp"
#include "wirings.hpp"

namespace {

// A model with weights large enough that attention is far from uniform.
Model made_up(Config config, bool training = true) {
  config.init = InitChoice::xavier, config.residual_gain = {}, config.init_gain = {};
  Model model(config, training);
  initialize(model, 7);
  const std::vector<float> nudge = random_floats(model.floats, 8, 0, .1f);
  for (size_t i = 0; i < model.floats; ++i) model.weights[i] += nudge[i];
  return model;
}

// Loss and gradients of a step on random tokens.
std::vector<float> step(const Config& config, float dropout = 0) {
  Model model = made_up(config);
  const int B = 3, T = config.context, V = config.vocab_size;
  const std::vector<int> tokens = random_ints(B * T, 1, V), targets = random_ints(B * T, 2, V);
  const Activations activations = allocate_activations(model.config, B, T, true);
  const double loss = model_loss_and_gradients(model, activations, {tokens.data(), targets.data(), B, T}, 1.f / (B * T),
                                               {.p = dropout, .seed = 3});
  const std::vector<float> as_float{static_cast<float>(loss)};
  return joined({as_float, {model.gradients.get(), model.floats}});
}

Config long_context(const Wiring& wiring) {
  Config c = wired(wiring.change);
  c.context = 75;  // more than one tile
  if (c.window > 0) c.window = 9;
  return c;
}

template <class Change>
Config changed(Config c, Change change) {
  change(c);
  return c;
}

}  // namespace

TEST_CASE("partial RoPE, sinusoids and slopes agree with PyTorch", "[position]") {
  const Reference rope("wiring", "rope"), fixed("wiring", "sinusoids"), alibi("wiring", "slopes");
  const int B = rope.integer("B"), T = rope.integer("T"), H = rope.integer("H"), D = rope.integer("D");
  const int R = static_cast<int>(std::lround(rope.number("fraction") * D));
  const RopeTable table(T, R, static_cast<float>(rope.number("theta")));
  std::vector<float> y = rope.floats("x"), dx = rope.floats("dy");
  rope_forward(y.data(), table, {B, T}, H, D, H * D);
  rope_backward(dx.data(), table, {B, T}, H, D, H * D);
  check_close("partial rope/y", y, rope.doubles("y"), 2e-7);
  check_close("partial rope/dx", dx, rope.doubles("dx"), 2e-7, rope.scale("dx"));

  const Buffer weight = sinusoids(fixed.integer("T"), fixed.integer("C"));
  const std::vector<double> want = fixed.doubles("weight");
  check_close("sinusoids/weight", {weight.get(), want.size()}, want, 1e-7);

  std::vector<float> slopes;
  for (int n = 1; n <= alibi.integer("most"); ++n) {
    const Buffer some = alibi_slopes(n);
    slopes.insert(slopes.end(), some.get(), some.get() + n);
  }
  check_close("alibi/slopes", slopes, alibi.doubles("slopes"), 1e-7);
}

TEST_CASE("wirings train the same for any number of threads, and under --recompute", "[model][recompute]") {
  for (const Wiring& wiring : wirings()) {
    INFO(wiring.name);
    Config config = long_context(wiring);
    check_same_for_all_threads([&] { return step(config, .1f); });
    const std::vector<float> kept = step(config, .1f);
    config.recompute = Recompute::full;
    CHECK(same_bits(kept, step(config, .1f)));
  }
}

TEST_CASE("wirings generate with the logits of the full forward pass", "[generate]") {
  for (const Wiring& wiring : wirings()) {
    const Model model = made_up(long_context(wiring), false);
    if (model.ropes.all.longer || !model.config.causal()) continue;
    const int T = model.config.context;
    check_generated("generate/" + wiring.name, model, random_ints(T, 1, model.config.vocab_size), {1, 6, T}, 1e-6);
  }
}

TEST_CASE("longrope generates with the logits of the full forward pass of as many tokens", "[generate]") {
  const Model model = made_up(wired([](Config& c) {
    c.position = Position::rope, c.rope_scaling = RopeScaling::longrope, c.rope_factor = 2, c.rope_original = 4;
    c.rope_short = "1,1.5", c.rope_long = "2,9";
  }), false);
  const int T = model.config.context, V = model.config.vocab_size;
  const std::vector<int> tokens = random_ints(T, 1, V);
  Generator one(model, T), several(model, T, 2);
  several.feed({tokens.begin(), tokens.begin() + 2});
  several.split(2);
  for (int t = 0; t < T; ++t) {
    const Activations a = allocate_activations(model.config, 1, t + 1, false);
    std::vector<float> want((t + 1) * V);
    batch_logits(want.data(), model, a, {tokens.data(), nullptr, 1, t + 1});
    const std::vector<double> last = widen({&want[t * V], size_t(V)});
    check_close("longrope generated", {one.feed({tokens[t]}), size_t(V)}, last, 1e-6);
    if (t < 2) continue;
    const float* both = several.step({tokens[t], tokens[t]});
    check_close("longrope generated", {both, size_t(V)}, last, 1e-6);
    check_close("longrope generated", {both + V, size_t(V)}, last, 1e-6);
  }
  CHECK_FALSE(one.beyond_context());
}

TEST_CASE("statistics of wirings change nothing and are the same for any number of threads", "[diagnostics]") {
  for (const Wiring& wiring : wirings()) {
    INFO(wiring.name);
    const Config config = long_context(wiring);
    const int B = 2, T = config.context;
    const std::vector<int> tokens = random_ints(B * T, 1, 13), targets = random_ints(B * T, 2, 13);
    const auto pass_with = [&](bool observed) {
      Model model = made_up(config);
      PassStatistics pass(model);
      model_loss_and_gradients(model, allocate_activations(model.config, B, T, true),
                               {tokens.data(), targets.data(), B, T}, 1, {}, observed ? &pass : nullptr);
      std::vector<float> statistics;
      for (const Statistic& row : pass.rows) statistics.push_back(static_cast<float>(row.value));
      return std::pair{statistics, std::vector<float>(model.gradients.get(), model.gradients.get() + model.floats)};
    };
    CHECK(same_bits(pass_with(true).second, pass_with(false).second));
    check_same_for_all_threads([&] { return pass_with(true).first; });
  }
}

TEST_CASE("RoPE fraction 1 and a window of the whole context have the bits of the defaults", "[model]") {
  const Config rope = changed(wired(wirings()[1].change), [](Config& c) { c.rope_fraction = 1; });
  CHECK(rope.rope_dims() == rope.head_dim);
  const RopeTable whole(9, rope.rope_dims(), 100), half(9, 2, 100);
  CHECK(whole.half == 2);
  CHECK(half.half == 1);
  std::vector<float> x = random_floats(9 * 4, 1), y = x;
  rope_forward(x.data(), whole, {1, 9}, 1, 4, 4);
  for (int t = 0; t < 9; ++t)  // by hand
    for (int i = 0; i < 2; ++i) {
      const double angle = t * std::pow(100., -i / 2.), a = y[t * 4 + i], b = y[t * 4 + i + 2];
      CHECK(x[t * 4 + i] == Approx(a * std::cos(angle) - b * std::sin(angle)));
      CHECK(x[t * 4 + i + 2] == Approx(a * std::sin(angle) + b * std::cos(angle)));
    }
  rope_forward(y.data(), half, {1, 9}, 1, 2, 4);
  CHECK(y[35] == random_floats(9 * 4, 1)[35]);

  CHECK(same_bits(step(rope), step(changed(rope, [](Config& c) { c.window = c.context; }))));
  CHECK_FALSE(same_bits(step(rope), step(changed(rope, [](Config& c) { c.window = c.context - 1; }))));
}

TEST_CASE("very large caps equal no caps, up to rounding", "[model]") {
  const Config config = wired(wirings()[1].change);
  const std::vector<float> none = step(config);
  check_close("model large caps", step(changed(config, [](Config& c) { c.attention_cap = c.logit_cap = 1e6f; })),
              widen(none), 2e-6);
}

TEST_CASE("a set of layers is read in each of its forms, and written in the shortest", "[config]") {
  const auto in = [](const std::string& set) {
    std::string layers;
    for (int l = 0; l < 7; ++l) layers += has_layer(set, l) ? 'x' : '.';
    return layers;
  };
  CHECK(in("all") == "xxxxxxx");
  CHECK(in("none") == ".......");
  CHECK(in("1 of 2") == "x.x.x.x");  // transformers' Gemma2Config: layers 0, 2, 4, ... are "sliding_attention"
  CHECK(in("5 of 6") == "xxxxx.x");  // Gemma3TextConfig
  CHECK(in("last 1 of 2") == ".x.x.x.");  // GPT-Neo
  CHECK(in("last 2 of 3") == ".xx.xx.");
  CHECK(in("0,5,3") == "x..x.x.");
  CHECK(in("12") == ".......");
  for (const char* wrong : {"", "some", "0 of 2", "3 of 2", "-1 of 2", "1 of 2 ", "1,,2", "1,", ",1", "-1", "1 2",
                            "1of2", "last", "last 1", "first 1 of 2", "99999999999999999999"}) {
    INFO("'" << wrong << "'");
    CHECK(message_of<std::invalid_argument>([&] { in(wrong); }) ==
          "'" + std::string(wrong) + "' is no set of layers: write all, none, 5 of 6, last 1 of 2, or 0,4,8");
  }

  const auto shortest = [](const std::string& set) { return shortest_layer_set(set, 7); };
  for (const char* same : {"all", "none", "1 of 2", "5 of 6", "last 1 of 2", "last 2 of 3", "0,3,5"})
    CHECK(shortest(same) == same);
  CHECK(shortest("3 of 3") == "all");
  CHECK(shortest("7,8") == "none");
  CHECK(shortest("2,0,6,4") == "1 of 2");
  CHECK(shortest("2 of 4") == "2 of 4");
  CHECK(shortest_layer_set("5 of 6", 5) == "all");
  CHECK(resolve(wired([](Config& c) { c.window = 7, c.window_layers = "0,1"; })).window_layers == "all");
  const auto refusal = [](std::string Config::*set) {
    return message_of<std::invalid_argument>([&] { wired([&](Config& c) { c.*set = "half"; }); });
  };
  CHECK(refusal(&Config::window_layers).starts_with("window-layers 'half' is no set of layers"));
  CHECK(refusal(&Config::rope_layers).starts_with("rope-layers 'half' is no set of layers"));
}

TEST_CASE("each layer rotates by the base of its kind, or not at all", "[config]") {
  const Config c = wired([](Config& c) {
    c.position = Position::rope, c.n_layer = 6, c.window = 3, c.window_layers = "2 of 3", c.window_rope_theta = 7;
    c.rope_layers = "last 5 of 6", c.rope_scaling = RopeScaling::linear, c.rope_factor = 2;
  });
  const RopeTables tables(c);
  CHECK(tables.of(c, 0) == nullptr);
  CHECK(tables.of(c, 1) == &tables.local);
  CHECK(tables.of(c, 2) == &tables.all);
  CHECK(tables.local.sine[tables.local.half + 1] == float(std::sin(std::pow(7, -.5))));  // position 1, pair 1
  CHECK(tables.all.sine[tables.all.half + 1] == float(std::sin(.01 / 2)));
  CHECK(message_of<std::invalid_argument>([] {
          wired([](Config& c) { c.position = Position::rope, c.rope_scaling = RopeScaling::yarn, c.rope_theta = 1; });
        }).starts_with("rope-theta is 1, and rope-scaling yarn needs"));
  const Config learned = wired([](Config&) {});
  CHECK(RopeTables(learned).of(learned, 1) == nullptr);
}

TEST_CASE("longrope has factors for short rows and for long ones", "[config]") {
  const auto longrope = [](const std::string& short_rows, const std::string& long_rows, int original = 4) {
    return [=](Config& c) {
      c.position = Position::rope, c.rope_scaling = RopeScaling::longrope, c.rope_factor = 16;
      c.rope_original = original, c.rope_short = short_rows, c.rope_long = long_rows;
    };
  };
  const Config c = wired(longrope("1,2", "4,8"));
  CHECK(*c.rope_magnitude == Approx(std::sqrt(3)));  // 1 + ln 16/ln 4
  const RopeTables tables(c);
  const RopeTable& table = *tables.of(c, 0);
  const float m = static_cast<float>(*c.rope_magnitude);
  CHECK(table.original == 4);
  CHECK(table.sine[3] == Approx(m * std::sin(.01 / 2)));  // position 1, pair 1
  CHECK(table.longer->sine[3] == Approx(m * std::sin(.01 / 8)));
  const Config whole = wired(longrope("1,2", "4,8", 11));  // as long as the context
  CHECK(RopeTables(whole).all.longer == nullptr);
  const std::vector<int> begins = {0, 0, 2, 2, 2, 2, 0, 0, 0, 0, 0, 5};
  CHECK(Positions{2, 6, 0, begins.data()}.example_lengths() ==
        std::vector<int>{2, 2, 4, 4, 4, 4, 5, 5, 5, 5, 5, 1});
  CHECK(Positions{1, 2, 3}.example_lengths() == std::vector<int>{5, 5});
  const auto refusal = [&](const std::function<void(Config&)>& change) {
    return message_of<std::invalid_argument>([&] { wired(change); });
  };
  CHECK(refusal(longrope("1,2", "4")) == "rope-long has 1 factors, and a head has 2 pairs: write one for each");
  CHECK(refusal(longrope("1,x", "4,8")) == "rope-short '1,x' is no list of positive numbers such as 1,1.05,2");
  for (const char* bad : {"", "1,", "0,1", "-1,2", "1,inf", "1 2"})
    CHECK(refusal(longrope(bad, "4,8")).starts_with("rope-short '" + std::string(bad) + "' is no list"));
  CHECK(refusal(longrope("1,2", "4,8", 1)).starts_with("rope-original is 1"));
}

TEST_CASE("biases of q, k and v, of o, and of the classifier have their own options", "[model][config]") {
  const auto names = [](const std::function<void(Config&)>& change) {
    std::string all;
    for (const TensorSpec& spec : Model(wired(change)).table)
      if (spec.name.ends_with(".bias") && (spec.name.starts_with("block.0") || spec.name.starts_with("head"))) {
        all += spec.name + " ";
        CHECK(spec.start.deviation == 0);
        CHECK_FALSE(spec.decay);
      }
    return all;
  };
  const std::string qkv = "block.0.attention.q.bias block.0.attention.k.bias block.0.attention.v.bias ";
  CHECK(names([](Config& c) { c.bias = false, c.qkv_bias = true; }) == qkv);
  CHECK(names([](Config& c) { c.bias = false, c.head_bias = true; }) == "head.bias ");
  CHECK(names([](Config& c) { c.qkv_bias = false, c.norm_bias = false; }) ==
        "block.0.attention.o.bias block.0.ffn.up.bias block.0.ffn.down.bias ");
  CHECK(names([](Config& c) { c.qkv_bias = c.o_bias = c.norm_bias.emplace(false); }) ==
        "block.0.ffn.up.bias block.0.ffn.down.bias ");
  CHECK(names([](Config& c) { c.bias = false, c.o_bias = true; }) == "block.0.attention.o.bias ");
}

TEST_CASE("impossible wirings are refused with a remedy", "[config]") {
  const auto refusal = [](const std::function<void(Config&)>& change) {
    return message_of<std::invalid_argument>([&] { wired(change); });
  };
  CHECK(refusal([](Config& c) { c.position = Position::rope, c.rope_fraction = .25f; }) ==
        "rope-fraction 0.25 of a head of 4 is less than one pair: raise it, or head-dim");
  CHECK(refusal([](Config& c) { c.position = Position::rope, c.rope_fraction = 0; }) != "");
  CHECK(refusal([](Config& c) { c.position = Position::alibi, c.rope_fraction = .25f; }) == "");
  for (const auto& [D, fraction, R] : {std::tuple{80, .4f, 32}, {96, .25f, 24}, {10, .6f, 6}, {4, 1.f, 4}}) {
    Config c = wired([](Config&) {});
    c.position = Position::rope, c.head_dim = D, c.rope_fraction = fraction;
    CHECK(resolve(c).rope_dims() == R);
  }
  const auto says = [&](const std::string& option, const std::function<void(Config&)>& change) {
    CHECK(refusal(change).starts_with(option + " is "));
  };
  says("window", [](Config& c) { c.window = -1; });
  says("rope-factor", [](Config& c) { c.rope_factor = .5f; });
  says("window-rope-theta", [](Config& c) { c.window_rope_theta = .5; });
  says("attention-cap", [](Config& c) { c.attention_cap = -1; });
  says("attention-scale", [](Config& c) { c.attention_scale = 0; });
  says("embedding-scale", [](Config& c) { c.embedding_scale = 0; });
  says("logit-cap", [](Config& c) { c.logit_cap = NAN; });
  says("rope-fraction", [](Config& c) { c.rope_fraction = 1.5f; });
}

TEST_CASE("a wiring is configured, drawn, resumed with the same bits and sampled", "[program]") {
  const Folder f;
  REQUIRE(f.run("corpus --bytes 60k --out s.txt").status == 0);
  const std::string words =
      "train --data s.txt --eval-every 0 --layers 2 --heads 2 --channels 32 --context 40 --batch 2 --schedule constant "
      "--quiet --position rope --rope-fraction 0.25 --window 9 --window-every 2 --attention-cap 20 "
      "--attention-scale 0.3 --activation geglu-tanh --no-bias --qkv-bias --head-bias --embedding-scale 4 "
      "--logit-cap 30 --logit-scale 2 --branch-scale 0.5 --no-norm-gain --embedding-channels 20 --attention-sinks ";
  REQUIRE(f.run(words + "--steps 6 --out whole").status == 0);
  REQUIRE(f.run(words + "--steps 3 --out broken").status == 0);
  const Outcome refused = f.run("train --out broken --resume --steps 6 --window 8");
  CHECK(contains(refused.err, "--window is 9 there and 8 here"));
  REQUIRE(f.run("train --out broken --resume --steps 6 --quiet").status == 0);
  CHECK(losses_in(f.read("whole/metrics.csv")) == losses_in(f.read("broken/metrics.csv")));
  const std::string told = f.run("info whole").out;
  for (const char* line :
       {"the token embedding again, on 20 channels projected from the stream, with a bias, logits times 2, logits "
        "capped at 30", "a sink in each",
        "causal, window 9 in layers 1 of 2", "RoPE on 4 of each head", "scores capped at 20",
        "32 → 96 → 32, geglu-tanh", "of the token times 4 (20 channels, projected to the stream)\n",
        "block.0.attention.q.bias", "x + 0.5·attention( layernorm without gain(x) )", "[ × 0.5 ]"})
    CHECK(contains(told, line));
  CHECK_FALSE(contains(told, "attention.o.bias"));
  CHECK(f.run("sample whole --length 60 --prompt The").status == 0);
  const Outcome wrong = f.run("train --data s.txt --position rope --rope-fraction 0.03 --out wrong");
  CHECK(wrong.status == 1);
  CHECK(contains(wrong.err, "--rope-fraction 0.03 of a head of 32 is less than one pair"));
  CHECK_FALSE(f.has("wrong"));
}
