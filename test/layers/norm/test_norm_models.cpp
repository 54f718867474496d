// Whole models with ScaleNorm, BatchNorm, DyT, Derf and GatedNorm: the running statistics of BatchNorm and its leak
// from later tokens, and the rest of a model with each norm. test_model.cpp and test_textbook_model.cpp check their
// numbers.

#include <algorithm>
#include <set>

#include "layers/model/initialize.hpp"
#include "layers/training/diagnostics.hpp"
#include "layers/training/optimizer.hpp"
#include "generated.hpp"
#include "model_case.hpp"

namespace {

constexpr NormKind kOthers[] = {NormKind::scalenorm, NormKind::batchnorm, NormKind::dyt, NormKind::derf,
                               NormKind::gatednorm};
constexpr int kB = 3, kT = 17, V = 31;

Config make_config(NormKind kind, const std::string& placement = "pre", bool llama = false) {
  Config c;
  c.placement = placement, c.norm = kind;
  c.n_layer = 3, c.n_head = 4, c.channels = 32, c.context = 40, c.vocab_size = V;
  if (llama) {
    c.position = Position::rope, c.activation = Activation::swiglu;
    c.bias = c.tied = false, c.kv_heads = 2;
  }
  return resolve(c);
}

struct Run : TrainingState {
  std::vector<int> tokens, targets = std::vector<int>(kB * kT);
  double loss = 0;

  explicit Run(const Config& config) : TrainingState(Model(config), kB, kT) { initialize(model, 7); }
  // Tokens that a rule links to their targets.
  Batch batch(int number) {
    tokens = random_ints(B * T, number, V);
    for (int i = 0; i < B * T; ++i) targets[i] = (5 * tokens[i] + 1) % V;
    return {tokens.data(), targets.data(), B, T};
  }
  void pass(int number, const Dropout& dropout = {}, Observer* observer = nullptr) {
    model_loss_and_gradients(model, activations, batch(number), 1.f / (B * T), dropout, observer);
  }
  void step(int number) {
    loss = training_step(*this, micro_batches(batch(number), 1), {{}, 0}, number, 3e-3).loss;
  }
  double evaluate(int number) { return model_loss(model, activations, batch(number)) / (B * T); }
  std::vector<float> all() const {
    return joined({{model.weights.get(), model.floats}, {model.gradients.get(), model.floats}});
  }
  // The tensors that are not trained.
  std::vector<float> running() const {
    std::vector<float> all;
    for (const TensorSpec& spec : model.table)
      for (size_t i = 0; !spec.trained && i < spec.size(); ++i) all.push_back(model.weights[spec.offset + i]);
    return all;
  }
};

}  // namespace

// ---- BatchNorm ---------------------------------------------------------------------------------------------

TEST_CASE("BatchNorm's running statistics and its loss in evaluation agree with PyTorch", "[norm][model]") {
  int found = 0;
  for (const std::string& name : Reference::cases("model")) {
    ModelCase c(name);
    if (!c.reference.has("running")) continue;
    found++;
    for (int step = 0; step < 10; ++step) c.loss_and_gradients(step);
    std::vector<float> running;
    for (const TensorSpec& spec : c.model.table)
      for (size_t i = 0; !spec.trained && i < spec.size(); ++i) running.push_back(c.model.weights[spec.offset + i]);
    check_close("norm models running statistics/" + name, running, c.reference.doubles("running"), 2e-6);
    const double loss = model_loss(c.model, c.activations, c.batch(0)) / (c.B * c.T);
    check_error("norm models evaluated loss/" + name, std::abs(loss / double(c.expected["evaluated"]) - 1), 5e-6);
  }
  CHECK(found == 17);
}

TEST_CASE("BatchNorm lets a position see later tokens in training, and not in evaluation", "[norm][model]") {
  const auto features = [](NormKind kind, const std::vector<int>& tokens, bool training) {
    Run run(make_config(kind));
    const std::vector<int> targets(kB * kT);
    const Batch batch{tokens.data(), targets.data(), kB, kT};
    if (training)
      model_loss_and_gradients(run.model, run.activations, batch, 1, {});
    else
      model_features(run.model, run.activations, batch);
    const float* h = run.activations.end.h;
    return std::vector<float>(h, h + size_t(kB) * kT * run.model.config.channels);
  };
  for (const NormKind kind : {NormKind::layernorm, NormKind::batchnorm})
    for (const bool training : {true, false}) {
      std::vector<int> tokens = random_ints(kB * kT, 1, V);
      const std::vector<float> before = features(kind, tokens, training);
      const int t = 5, C = before.size() / (kB * kT);
      tokens[t + 1] = (tokens[t + 1] + 1) % V;
      const std::vector<float> after = features(kind, tokens, training);
      const auto row = [&](const std::vector<float>& h, int n) { return std::span(h).subspan(size_t(n) * C, C); };
      CHECK_FALSE(same_bits(row(before, t + 1), row(after, t + 1)));
      const bool leaks = kind == NormKind::batchnorm && training;
      CHECK(same_bits(row(before, t), row(after, t)) == !leaks);          // an earlier position in the same text
      CHECK(same_bits(row(before, 2 * kT), row(after, 2 * kT)) == !leaks);  // another text
      if (!leaks) continue;
      double change = 0;
      for (int c = 0; c < C; ++c) change = std::max(change, std::fabs(double(row(after, t)[c] - row(before, t)[c])));
      CHECK(change > 1e-3);  // more than a rounding error
    }
}

TEST_CASE("running statistics change once per training pass, recomputed or not", "[norm][model][recompute]") {
  for (const char* placement : {"pre", "post", "sandwich", "reordered"}) {
    Config config = make_config(NormKind::batchnorm, placement);
    Run kept(config);
    config.recompute = Recompute::full;
    Run recomputed(config);
    std::vector<float> last = kept.running();
    CHECK(!last.empty());
    for (int i = 0; i < 3; ++i) {
      kept.pass(i, {.p = .1f}), recomputed.pass(i, {.p = .1f});
      CHECK(same_bits(kept.all(), recomputed.all()));
      CHECK_FALSE(same_bits(last, kept.running()));
      last = kept.running();
      kept.evaluate(9);
      CHECK(same_bits(last, kept.running()));
    }
  }
}

TEST_CASE("running statistics are not optimized, decayed or counted in the gradient norm", "[norm][model]") {
  Run run(make_config(NormKind::batchnorm));
  run.pass(0);
  const std::vector<float> running = run.running();
  const double norm = gradient_norm(run.model.gradients.get(), run.model.table);
  for (const TensorSpec& spec : run.model.table)
    if (!spec.trained) std::fill_n(run.model.gradients.get() + spec.offset, spec.size(), 100.f);
  CHECK(gradient_norm(run.model.gradients.get(), run.model.table) == norm);
  const Model& model = run.model;
  kAdamW.update({model.weights.get(), run.optimizer_state.get(), model.gradients.get()},
                tensors_of(model.table, kAdamW), {}, {1e-2f, 1, 1});
  CHECK(same_bits(running, run.running()));
}

TEST_CASE("models with norms of the other kinds learn, and their evaluated loss falls too", "[norm][model]") {
  for (const NormKind kind : kOthers) {
    INFO(name_of(kNormKinds, kind));
    Run run(make_config(kind));
    for (int step = 0; step < 150; ++step) run.step(step);
    CHECK(run.loss < 1.5);  // starts at log 31 = 3.4
    CHECK(run.evaluate(1000) < 1.5);
  }
}

// ---- all kinds ---------------------------------------------------------------------------------------------

TEST_CASE("training with other norms is the same for any number of threads, and recomputed", "[norm][model]") {
  for (const NormKind kind : kOthers)
    for (const char* placement : {"pre", "deepnorm", "sandwich"})
      for (const bool llama : {false, true}) {
        INFO(name_of(kNormKinds, kind) << " " << placement);
        Config config = make_config(kind, placement, llama);
        const auto train = [&] {
          Run run(config);
          run.step(0), run.step(1);
          run.pass(2, {.p = .2f});
          return run.all();
        };
        check_same_for_all_threads(train);
        const std::vector<float> kept = train();
        config.recompute = Recompute::full;
        CHECK(same_bits(kept, train()));
      }
}

TEST_CASE("with norms of the other kinds, cached logits are those of the full forward pass", "[norm][generate]") {
  for (const NormKind kind : kOthers)
    for (const bool llama : {false, true}) {
      INFO(name_of(kNormKinds, kind));
      Run run(make_config(kind, "sandwich", llama));
      for (int step = 0; step < 5; ++step) run.step(step);  // moves the running statistics away from their start
      check_generated(std::string("norm models cached logits/") + name_of(kNormKinds, kind), run.model,
                      random_ints(kT, 3, V), {1}, 3e-6);  // as in test_generate.cpp
    }
}

TEST_CASE("diagnostics include norms of the other kinds", "[norm][diagnostics]") {
  for (const NormKind kind : kOthers) {
    Run run(make_config(kind));
    PassStatistics pass(run.model);
    run.pass(0, {}, &pass);
    add_tensor_statistics(pass.rows, run.model);
    const std::vector<float> before(run.model.weights.get(), run.model.weights.get() + run.model.floats);
    add_update_ratios(pass.rows, run.model, before.data());
    const auto value = [&](const std::string& what) {
      for (const Statistic& s : pass.rows)
        if (s.layer == 1 && s.part == "ffn.norm_in" && s.what == what) return s.value;
      return std::nan("");
    };
    const bool scale = kind == NormKind::scalenorm, points = kind == NormKind::dyt || kind == NormKind::derf;
    CHECK(value("gain_mean") == Approx(scale ? std::sqrt(32) : 1));
    CHECK((value("alpha") == .5) == points);
    CHECK((value("shift") == 0) == (kind == NormKind::derf));
    CHECK(value("rms_before") > 0);
    for (const Statistic& s : pass.rows) {
      CHECK(s.part.find("running") == std::string::npos);
      CHECK(std::isfinite(s.value));
    }
  }
  Config config = make_config(NormKind::rmsnorm);
  config.norm_unit_offset = true;
  const Run run(config);
  Statistics rows;
  add_tensor_statistics(rows, run.model);
  for (const Statistic& s : rows)
    if (s.what.starts_with("gain_")) CHECK(s.value == 1);
}

TEST_CASE("gains of norms decay if asked to, those of output norms on their own", "[optimizer]") {
  Config config;
  config.placement = "pre-post", config.final_norm = config.embedding_norm = true, config.qk_norm = QkNormKind::head;
  config.head_transform = true, config.head_scale = true, config.n_layer = 1, config.vocab_size = 7;
  const Model model(config);
  const OptimizerOptions options{.weight_decay = .5f, .norm_decay = .25f, .output_norm_decay = .125f};
  const std::set<std::string> input = {"norm_in", "final_norm", "head.norm"},
                              output = {"norm_sum", "q_norm", "k_norm", "embedding.norm"};
  const auto ends_in = [](const std::string& name, const std::set<std::string>& ends) {
    return std::ranges::any_of(ends, [&](const std::string& end) { return name.ends_with(end + ".gain"); });
  };
  size_t gains = 0;
  for (TensorSpec spec : model.table) {
    INFO(spec.name);
    const float want = ends_in(spec.name, input) ? .25f : ends_in(spec.name, output) ? .125f : spec.decay ? .5f : 0;
    gains += want == .25f || want == .125f;
    CHECK(decay_of(spec, options) == want);
    CHECK(decay_of(spec, {.weight_decay = .5f}) == (spec.decay ? .5f : 0));
    spec.decay_factor = 4;
    CHECK(decay_of(spec, options) == 4 * want);
  }
  CHECK(gains == 4 + 2 + 3);  // two branches; q and k; embedding, end and head
}

TEST_CASE("gains of the norms of streams decay as those of output norms", "[optimizer][streams]") {
  for (const auto& [placement, norms] : {std::pair{"siamese", std::set<std::string>{"first_norm", "second_norm"}},
                                         {"gated-residual", {"stream_norm"}}}) {
    Config config;
    config.placement = placement, config.n_layer = 1, config.vocab_size = 7;
    std::set<std::string> found;
    for (const TensorSpec& spec : Model(config).table)
      for (const std::string& norm : norms)
        if (spec.name.ends_with(norm + ".gain")) {
          INFO(spec.name);
          CHECK(decay_of(spec, {.weight_decay = .5f, .norm_decay = .25f, .output_norm_decay = .125f}) == .125f);
          found.insert(norm);
        }
    CHECK(found == norms);
  }
}
