// Rows that hold several examples side by side: against the same examples one by one, the textbook and PyTorch.

#include <algorithm>
#include <array>

#include "attention_result.hpp"
#include "forms.hpp"
#include "layers/textbook/model.hpp"
#include "layers/training/step.hpp"
#include "model_case.hpp"
#include "packed.hpp"
#include "random_model.hpp"
#include "reference.hpp"
#include "textbook.hpp"
#include "wirings.hpp"

namespace {

constexpr double kTolerance = 1e-6;

// ---- attention and positions -------------------------------------------------------------------------------

// kPacked's attention with several heads, or with fewer heads than threads.
struct Layer {
  AttentionShape shape{kPacked.B, kPacked.T, 4, 2, 7};
  std::vector<float> qkv, dout;

  explicit Layer(int H = 4, int KV = 2) {
    shape.n_head = H, shape.kv_heads = KV, shape.begins = kPacked.begins.data();
    qkv = random_floats(size_t(shape.B) * shape.T * shape.qkv_width(), 1, 0, 1.5f);
    dout = random_floats(size_t(shape.B) * shape.T * shape.width(), 2);
  }
};

void compare_with_textbook(const PackedRows& rows, const AttentionShape& one, float p, const std::string& what,
                           textbook::Scoring scoring) {
  const int H = one.n_head, KV = one.kv_heads, D = one.head_dim;
  AttentionShape shape{rows.B, rows.T, H, KV, D};
  std::vector<float> slopes(scoring.slopes.begin(), scoring.slopes.end());
  if (scoring.scale > 0) shape.scale = static_cast<float>(scoring.scale);
  shape.cap = static_cast<float>(scoring.cap), shape.window = static_cast<int>(scoring.window);
  shape.slopes = slopes.empty() ? nullptr : slopes.data();
  shape.causal = scoring.causal;
  shape.begins = scoring.begins = rows.begins.data();
  const size_t N = size_t(rows.B) * rows.T;
  const std::vector<float> qkv = random_floats(N * shape.qkv_width(), 1, 0, 1.5f),
                           dout = random_floats(N * shape.width(), 2);
  const Dropout dropout{p, 11, 12, 13};
  const AttentionResult r = run(shape, qkv, dout, dropout);
  const Doubles m =
      textbook::attention_multipliers<double>(dropout, 2, DropoutSite::attention, rows.B, H, rows.T, rows.T);
  Doubles want(dout.size()), P(m.size()), want_dqkv(qkv.size());
  const textbook::AttentionShape sizes{size_t(rows.B), size_t(rows.T), size_t(H), size_t(KV), size_t(D)};
  textbook::attention_forward(want.data(), P.data(), widen(qkv).data(), m.data(), sizes, scoring);
  textbook::attention_backward(want_dqkv.data(), widen(dout).data(), P.data(), widen(qkv).data(), m.data(), sizes,
                               scoring);
  const std::string name = "packed attention vs textbook" + at({rows.T, H, KV, D}) + what + "/";
  check_close(name + "out", r.out, want, kTolerance);
  check_close(name + "dqkv", r.dqkv, want_dqkv, kTolerance);
}

}  // namespace

TEST_CASE("attention on rows of several examples agrees with the textbook", "[packed][attention][textbook]") {
  const std::vector<PackedRows> all = {kPacked, PackedRows({{3, 4}, {1, 6}}), PackedRows({{64, 64, 2}, {130}}),
                                       PackedRows({{65, 65}, {127, 3}}), PackedRows({std::vector<int>(70, 1)})};
  for (const PackedRows& rows : all)
    for (const auto& [H, KV, D] : {std::array{2, 2, 5}, {4, 2, 16}})
      for (const float p : {0.f, .3f}) {
        const AttentionShape heads{1, 1, H, KV, D};
        compare_with_textbook(rows, heads, p, "plain", {});
        for (const size_t window : {1, 3, 64, 100})
          for (const auto& [what, scoring] : scorings(H, window)) {
            if (window != 3 && scoring.window == 0) continue;
            compare_with_textbook(rows, heads, p, what + " " + std::to_string(window), scoring);
          }
      }
}

TEST_CASE("attention on rows of several examples agrees with PyTorch", "[packed][attention]") {
  for (const std::string& name : Reference::cases("packed_attention")) {
    const Reference ref("packed_attention", name);
    const int H = ref.integer("H");
    const Buffer slopes = alibi_slopes(H);
    const std::vector<int> begins = ref.ints("begins");
    AttentionShape shape{ref.integer("B"), ref.integer("T"), H, ref.integer("KV"), ref.integer("D")};
    shape.scale = static_cast<float>(ref.number("scale")), shape.cap = static_cast<float>(ref.number("cap"));
    shape.window = ref.integer("window"), shape.slopes = ref.integer("alibi") ? slopes.get() : nullptr;
    shape.begins = begins.data();
    const AttentionResult r = run(shape, ref.floats("qkv"), ref.floats("dout"));
    check_close("packed attention/" + name + "/out", r.out, ref.doubles("out"), kTolerance);
    check_close("packed attention/" + name + "/dqkv", r.dqkv, ref.doubles("dqkv"), kTolerance, ref.scale("dqkv"));
  }
}

TEST_CASE("attention on rows of several examples is the same for any number of threads", "[packed][attention]") {
  const Buffer slopes = alibi_slopes(4);
  for (const bool many_heads : {true, false})  // with few, tiles of queries and tiles of keys are separate tasks
    for (const int window : {0, 5, 66}) {
      Layer layer(many_heads ? 4 : 1, 1);
      layer.shape.window = window;
      check_same_for_all_threads([&] { return run(layer.shape, layer.qkv, layer.dout, {.p = .1f}).all(); });
      layer.shape.slopes = slopes.get(), layer.shape.cap = 2;
      check_same_for_all_threads([&] { return run(layer.shape, layer.qkv, layer.dout, {.p = .1f}).all(); });
    }
}

TEST_CASE("attention does not see the other examples of its row", "[packed][attention]") {
  const Layer layer;
  const AttentionShape& s = layer.shape;
  const AttentionResult r = run(s, layer.qkv, layer.dout);
  for (const Example& e : kPacked.examples) {
    std::vector<float> other(layer.qkv.size(), 1e6f), dout(layer.dout.size());
    const size_t first = size_t(e.row) * s.T + e.begin, end = first + e.length, in = s.qkv_width(), out = s.width();
    std::copy(&layer.qkv[first * in], &layer.qkv[0] + end * in, &other[first * in]);
    const std::vector<float> alone = run(s, other, layer.dout).out;
    CHECK(same_bits(std::span(alone).subspan(first * out, e.length * out),
                    std::span(r.out).subspan(first * out, e.length * out)));
    std::copy(&layer.dout[first * out], &layer.dout[0] + end * out, &dout[first * out]);
    const std::vector<float> dqkv = run(s, layer.qkv, dout).dqkv;
    for (size_t i = 0; i < dqkv.size(); ++i) REQUIRE((dqkv[i] == 0 || (i >= first * in && i < end * in)));
  }
}

TEST_CASE("examples that begin at borders of tiles have the bits of rows of their own", "[packed][attention]") {
  const PackedRows rows({{64, 128, 8}});
  AttentionShape shape{1, rows.T, 4, 2, 7};
  shape.begins = rows.begins.data();
  const std::vector<float> qkv = random_floats(rows.T * shape.qkv_width(), 1, 0, 1.5f),
                           dout = random_floats(rows.T * shape.width(), 2);
  const AttentionResult packed = run(shape, qkv, dout);
  for (const Example& e : rows.examples) {
    const AttentionShape own{1, e.length, 4, 2, 7};
    const AttentionResult r = run(own, rows.of(e, qkv, own.qkv_width()), rows.of(e, dout, own.width()));
    CHECK(same_bits(r.out, rows.of(e, packed.out, own.width())));
    CHECK(same_bits(r.dqkv, rows.of(e, packed.dqkv, own.qkv_width())));
  }
}

TEST_CASE("one example in each row has the bits of null", "[packed][attention]") {
  for (const int window : {0, 70}) {
    Layer layer;
    layer.shape.window = window, layer.shape.begins = nullptr;
    const AttentionResult r = run(layer.shape, layer.qkv, layer.dout, {.p = .1f});
    const std::vector<int> zeros(kPacked.begins.size());
    layer.shape.begins = zeros.data();
    CHECK(same_bits(run(layer.shape, layer.qkv, layer.dout, {.p = .1f}).all(), r.all()));
  }
}

TEST_CASE("positions restart with each example", "[packed][position]") {
  const int heads = 2, D = 6, C = heads * D, B = kPacked.B, T = kPacked.T;
  const RopeTable table(T, D, 10000);
  const std::vector<float> x = random_floats(size_t(B) * T * C, 1), weight = random_floats(size_t(T) * C, 2);
  const Positions positions{.B = B, .T = T, .begins = kPacked.begins.data()};
  std::vector<float> turned = x, back = x, sum = x, dweight = random_floats(weight.size(), 3);
  Doubles want = widen(dweight);
  rope_forward(turned.data(), table, positions, heads, D, C);
  rope_backward(back.data(), table, positions, heads, D, C);
  position_forward(sum.data(), weight.data(), positions, C);
  learned_position_backward(dweight.data(), x.data(), positions, C);
  for (const Example& e : kPacked.examples) {
    const Positions own{1, e.length};
    std::vector<float> part = kPacked.of(e, x, C);
    rope_forward(part.data(), table, own, heads, D, C);
    CHECK(same_bits(part, kPacked.of(e, turned, C)));
    part = kPacked.of(e, x, C);
    rope_backward(part.data(), table, own, heads, D, C);
    CHECK(same_bits(part, kPacked.of(e, back, C)));
    part = kPacked.of(e, x, C);
    position_forward(part.data(), weight.data(), own, C);
    CHECK(same_bits(part, kPacked.of(e, sum, C)));
  }
  const std::vector<size_t> p = textbook::positions(B, T, 0, kPacked.begins.data());
  textbook::learned_position_backward(want.data(), widen(x).data(), p, C);
  check_close("packed positions vs textbook/dweight", dweight, want, kTolerance);
  check_same_for_all_threads([&] {
    std::vector<float> d(weight.size());
    learned_position_backward(d.data(), x.data(), positions, C);
    return d;
  });
}

// ---- models ------------------------------------------------------------------------------------------------

namespace {

struct Case {
  std::string name;
  Config config;
};

// Models of kPacked's context, without what mixes the tokens of a batch: BatchNorm and the router's balance loss.
std::vector<Case> cases() {
  std::vector<Case> list;
  for (const Form& form : forms())
    for (const bool llama : {false, true}) {
      const NormKind kind = llama ? NormKind::rmsnorm : NormKind::layernorm;
      list.push_back({title_of(form, kind, llama), small_config(form, kind, llama)});
    }
  for (const auto& [name, change] : wirings()) list.push_back({name, wired(change)});
  list.push_back({"a window of 70", small_config(forms()[0], NormKind::layernorm, true)});
  list.back().config.window = 70;
  for (Case& c : list) c.config.context = kPacked.T;
  return list;
}

// Inputs for kPacked: the last token of an example has no target.
struct Inputs {
  std::vector<int> tokens = random_ints(kPacked.begins.size(), 1, 13), targets = random_ints(tokens.size(), 2, 13);
  int counted = int(tokens.size() - kPacked.examples.size());

  Inputs() {
    for (const Example& e : kPacked.examples) targets[e.row * kPacked.T + e.begin + e.length - 1] = kIgnore;
  }
  Batch packed() const { return {tokens.data(), targets.data(), kPacked.B, kPacked.T, kPacked.begins.data()}; }
  Batch alone(const Example& e) const {
    const int first = e.row * kPacked.T + e.begin;
    return {&tokens[first], &targets[first], 1, e.length};
  }
};

struct Pass {
  double loss = 0;
  std::vector<double> gradients;
};

Pass fast_pass(Model& model, const Inputs& in, bool packed) {
  const Activations a = allocate_activations(model.config, kPacked.B, kPacked.T, true);
  const float scale = 1.f / static_cast<float>(in.counted);
  std::fill_n(model.gradients.get(), model.gradient_floats, 0.f);
  Pass pass;
  if (packed) pass.loss = model_loss_and_gradients(model, a, in.packed(), scale, {});
  else for (const Example& e : kPacked.examples)
    pass.loss += model_loss_and_gradients(model, a, in.alone(e), scale, {});
  pass.gradients = widen({model.gradients.get(), model.floats});
  return pass;
}

Pass textbook_pass(const Model& model, const Inputs& in, bool packed) {
  Pass pass;
  pass.gradients.resize(model.floats);
  const auto add = [&](const Batch& batch) {
    textbook::Model<double> book(model, batch.B, batch.T, {});
    pass.loss += book.forward(batch);
    book.backward(batch, 1. / in.counted);
    for (size_t i = 0; i < model.floats; ++i) pass.gradients[i] += book.g.numbers[i];
  };
  if (packed) add(in.packed());
  else for (const Example& e : kPacked.examples) add(in.alone(e));
  return pass;
}

// An estimate of the size of the terms that add up to the gradient of a bias b of y = Wx + b, before they cancel: the
// gradient of W has the same terms, each times a row of x, whose C numbers have about the size 1.
double size_of_terms(std::string bias, const Model& model, const Doubles& gradients) {
  const std::string weight = bias.replace(bias.rfind("bias"), 4, "weight");
  const auto spec = std::ranges::find(model.table, weight, &TensorSpec::name);
  REQUIRE(spec != model.table.end());
  return norm_of({&gradients[spec->offset], spec->size()}) / std::sqrt(static_cast<double>(model.config.channels));
}

// Compares the loss and the gradient of every tensor. A number that all rows add to may nearly cancel.
void compare(const std::string& name, const Model& model, const Pass& got, const Pass& want, double loss_tolerance,
             double tolerance) {
  const Config& config = model.config;
  const double all = norm_of(want.gradients);
  check_error(name + "/loss", std::fabs(got.loss / want.loss - 1), loss_tolerance);
  for (const TensorSpec& spec : model.table) {
    // Without RoPE or a cap, a bias of all keys adds the same to all scores of a row, so its gradient is only rounding.
    const bool moved = config.position == Position::rope || config.attention_cap > 0;
    if (spec.name.ends_with(config.qk_norm == QkNormKind::none ? ".k.bias" : ".k_norm.bias") && !moved) continue;
    const std::span<const double> a{&got.gradients[spec.offset], spec.size()},
                                  b{&want.gradients[spec.offset], spec.size()};
    double squares = 0;
    for (size_t i = 0; i < spec.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
    const bool single = spec.size() == 1 || (spec.role == Role::streams && spec.shape.size() == 1);
    const bool zero = norm_of(b) < 1e-13 * all;  // a bias before a BatchNorm
    double least = (zero ? 1 : single ? .1 : 1e-3) * all;
    // Most of that cancels with RoPE or a norm of the keys, too: terms are up to 5 times their sum.
    if (spec.name.ends_with(".k.bias")) least = std::max(least, size_of_terms(spec.name, model, want.gradients));
    check_error(name + "/" + spec.name, std::sqrt(squares) / std::max(norm_of(b), least), tolerance);
  }
}

}  // namespace

TEST_CASE("packed rows have the loss and gradients of their examples one by one", "[packed][model][textbook]") {
  const Inputs in;
  for (const auto& [name, config] : cases()) {
    Model model(config);
    randomize(model);
    const Pass book = textbook_pass(model, in, true), fast = fast_pass(model, in, true);
    compare("packed textbook vs one by one/" + name, model, book, textbook_pass(model, in, false), 1e-13, 1e-11);
    // Rounding errors of hyper-connections grow with T: their scales are two numbers that all tokens add to.
    const bool hyper = placement_row(config.placement).streams == StreamRule::hyper;
    compare("packed vs textbook/" + name, model, fast, book, kTolerance, (hyper ? 3 : 1) * model_tolerance(config));
    compare("packed vs one by one/" + name, model, fast, fast_pass(model, in, false), kTolerance,
            hyper ? 1e-5 : 3 * kTolerance);  // 3.5e-6 and 1.1e-6 measured, by two builds for AVX2
  }
}

TEST_CASE("packed rows agree with the textbook under BatchNorm, experts and LoRA", "[packed][model][textbook]") {
  const Inputs in;
  for (const bool llama : {false, true}) {
    Config batchnorm = small_config(forms()[0], NormKind::batchnorm, llama), experts = batchnorm, lora = batchnorm;
    experts.norm = lora.norm = llama ? NormKind::rmsnorm : NormKind::layernorm;
    experts.experts = 4, experts.router_loss = .3f;  // over all tokens of the micro-batch, as BatchNorm's statistics
    lora.lora_rank = 3, lora.lora_alpha = 1, lora.lora_on = "q,v,up";
    for (Config c : {batchnorm, experts, lora}) {
      c.context = kPacked.T;
      Model model(c);
      randomize(model);
      const std::string kind = c.experts > 0 ? "experts" : c.lora_rank > 0 ? "lora" : "batchnorm";
      compare("packed vs textbook/" + kind + (llama ? " llama" : " gpt2"), model, fast_pass(model, in, true),
              textbook_pass(model, in, true), kTolerance, model_tolerance(c));
    }
  }
}

TEST_CASE("packed rows agree with PyTorch's position ids and mask of blocks", "[packed][model]") {
  for (const std::string& name : Reference::cases("packed")) {
    const Reference ref("packed", name);
    ModelCase c(name);
    const std::vector<int> tokens = ref.ints("tokens"), targets = ref.ints("targets"), begins = ref.ints("begins");
    const std::vector<double> want = ref.doubles("grads");
    const int B = 3, T = int(tokens.size()) / B, counted = int(std::count_if(targets.begin(), targets.end(), [](int t) {
      return t != kIgnore;
    }));
    const Batch batch{tokens.data(), targets.data(), B, T, begins.data()};
    const Activations a = allocate_activations(c.model.config, B, T, true);
    const double loss = model_loss_and_gradients(c.model, a, batch, {counted, int64_t(B) * T}, {}) / counted;
    check_error("packed vs PyTorch/" + name + "/loss", std::fabs(loss / ref.number("loss") - 1), 2e-6);
    size_t at = 0;
    for (const TensorSpec& spec : c.model.table) {
      if (!spec.trained) continue;
      const std::span<const float> got{c.model.gradients.get() + spec.gradient, spec.size()};
      const std::span<const double> expected = std::span(want).subspan(at, spec.size());
      at += spec.size();
      const double scale = ref.scale(spec.name);
      const std::string tensor = "packed vs PyTorch/" + name + "/" + spec.name;
      if (norm_of(expected) < 1e-13 * scale) check_error(tensor + " zero", norm_of(widen(got)) / scale, 1e-6);
      else check_close(tensor, got, expected, 1e-5, sum_factor(spec.size()) * scale);
    }
    CHECK(at == want.size());
  }
}

TEST_CASE("packed rows have the same bits for any number of threads and under --recompute", "[packed][recompute]") {
  const Inputs in;
  for (const auto& [name, config] : cases()) {
    INFO(name);
    const auto gradients = [&in, &plain = config](Recompute recompute) {
      Config c = plain;
      c.recompute = recompute;
      Model model(c);
      randomize(model);
      const Activations a = allocate_activations(model.config, kPacked.B, kPacked.T, true);
      model_loss_and_gradients(model, a, in.packed(), 1, {.p = .1f});
      return std::vector<float>(model.gradients.get(), model.gradients.get() + model.floats);
    };
    const std::vector<float> kept = gradients(Recompute::none);
    for (const Recompute recompute : {Recompute::selective, Recompute::full})
      CHECK(same_bits(gradients(recompute), kept));
    set_threads(3);
    CHECK(same_bits(gradients(Recompute::none), kept));
    set_threads(1);
  }
}

TEST_CASE("micro-batches carry the examples of their rows", "[packed][model]") {
  const Inputs in;
  const Config config = [] {
    Config c = small_config(forms()[0], NormKind::layernorm, true);
    c.context = kPacked.T;
    return resolve(c);
  }();
  Model model(config), stepped(config);
  randomize(model), randomize(stepped);
  const Pass want = fast_pass(model, in, true);
  TrainingState s(std::move(stepped), 1, kPacked.T, kGradientsOnly);
  const auto step = [&](const int* begins) {
    const MicroBatches batches =
        micro_batches({in.tokens.data(), in.targets.data(), kPacked.B, kPacked.T, begins}, kPacked.B);
    return training_step(s, batches, {}, 0, 0);
  };
  const StepResult packed = step(kPacked.begins.data());
  CHECK(packed.targets == in.counted);
  check_error("packed micro-batches/loss", std::fabs(packed.loss * in.counted / want.loss - 1), kTolerance);
  check_close("packed micro-batches/gradients", {s.model.gradients.get(), s.model.floats}, want.gradients, kTolerance);
  CHECK(step(nullptr).loss != packed.loss);
}

TEST_CASE("a step's router losses are means over all tokens, however few have targets", "[packed][moe]") {
  Inputs in;
  for (size_t i = 0; i < in.targets.size(); ++i)
    if (i % 5 > 0) in.targets[i] = kIgnore;
  const auto counted = std::count_if(in.targets.begin(), in.targets.end(), [](int t) { return t != kIgnore; });
  const int T = kPacked.T;
  Config config = small_config(forms()[0], NormKind::rmsnorm, true);
  config.context = T, config.experts = 4, config.router_loss = .3f, config.router_z_loss = .1f;
  Model model(config), stepped(config);
  randomize(model), randomize(stepped);
  const Activations a = allocate_activations(model.config, 1, T, true);
  for (int row = 0; row < kPacked.B; ++row) {
    const int at = row * T;
    model_loss_and_gradients(model, a, {&in.tokens[at], &in.targets[at], 1, T, &kPacked.begins[at]},
                             {counted, int64_t(in.tokens.size())}, {});
  }
  TrainingState s(std::move(stepped), 1, T, kGradientsOnly);
  training_step(s, micro_batches({in.tokens.data(), in.targets.data(), kPacked.B, T, kPacked.begins.data()}, kPacked.B),
                {}, 0, 0);
  CHECK(same_bits({s.model.gradients.get(), s.model.floats}, {model.gradients.get(), model.floats}));
}
