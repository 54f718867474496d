// The initial gains on Admin's skip paths, against the sums of a training pass.

#include "layers/model/profile.hpp"

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "check.hpp"
#include "layers/model/initialize.hpp"
#include "random_model.hpp"

namespace {

constexpr int B = 3, T = 20;
constexpr Dropout kDropout = {.2f, 5, 6};

Config admin(const std::function<void(Config&)>& change = {}) {
  Config c;
  c.placement = "admin", c.n_layer = 3, c.n_head = 4, c.channels = 48, c.context = T, c.vocab_size = 67;
  if (change) change(c);
  return resolve(c);
}

void post(Config& c) { c.placement = "post", c.init = InitChoice::xavier; }
void post_encoder(Config& c) {
  c.encoder_layers = 2, c.objective = Objective::pairs, c.encoder_placement = "post", c.dropout = .1f;
}

const std::function<void(Config&)> kChanges[] = {
    [](Config&) {},
    [](Config& c) { c.norm = NormKind::rmsnorm, c.activation = Activation::swiglu, c.position = Position::rope; },
    [](Config& c) { c.norm = NormKind::batchnorm, c.embedding_norm = true; },
    [](Config& c) { c.norm = NormKind::dyt, c.skip_scale = 1.5; },
    [](Config& c) { c.encoder_layers = 2, c.objective = Objective::pairs; },
    post_encoder,
    [](Config& c) { c.stream_mix = true, c.value_residual = ValueResidual::learned, c.branch_scale = .3; },
    [](Config& c) { c.experts = 3, c.shared_experts = 1; },
    [](Config& c) { c.lora_rank = 2, c.lora_dropout = .3f; },
    [](Config& c) { c.parametrization = Parametrization::completep, c.base_channels = 24, c.base_layers = 1; }};

double variance(const std::vector<double>& x) {
  double mean = 0, sum = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (const double v : x) sum += (v - mean) * (v - mean);
  return sum / static_cast<double>(x.size());
}

// A branch in a training pass: its ω, and the variances of what reaches the sum through the skip path and through F.
struct Seen {
  std::string gain;
  double omega, skipped, added;
};

struct Recorder : Observer {
  explicit Recorder(const Model& m) : model(m) {}

  void block(int layer, const float* x, const BlockSaved& saved, const float*, const Batch& batch) override {
    const Config& config = layer < model.config.encoder_layers ? model.encoder : model.config;
    const std::string name = (&config == &model.encoder && model.config.crosses() ? "encoder.block." : "block.") +
                             std::to_string(layer_in_stack(model.config, layer));
    const size_t n = size_t(batch.B) * batch.T * config.channels;
    std::vector<Seen> of_block = {see(name + ".attention", saved.mixed ? saved.mixed : x, saved.attention, n)};
    if (config.crosses()) of_block.push_back(see(name + ".cross", saved.attention.y, saved.cross, n));
    of_block.push_back(see(name + ".ffn", saved.before_ffn(), saved.ffn, n));
    branches.insert(branches.begin(), of_block.begin(), of_block.end());  // the last block comes first
  }
  void outside(const StackActivations&, const float*, const Batch&, bool) override {}

  Seen see(const std::string& branch, const float* x, const BranchSaved& saved, size_t n) const {
    const std::string gain = branch + ".skip.gain";
    const auto spec = std::ranges::find(model.table, gain, &TensorSpec::name);
    if (spec == model.table.end()) return {};
    const float* omega = model.weights.get() + spec->offset;
    std::vector<double> skipped, added;
    for (size_t i = 0; i < n; ++i) {
      CHECK(omega[i % spec->size()] == omega[0]);
      skipped.push_back(*model.config.skip_scale * double(omega[0]) * double(x[i]));
      added.push_back(double(saved.s[i]) - skipped.back());
    }
    return {gain, double(omega[0]), variance(skipped), variance(added)};
  }

  const Model& model;
  std::vector<Seen> branches;  // of the encoder, and then of the decoder
};

struct Tokens {
  std::vector<int> inputs, targets, from, to;
  explicit Tokens(int V)
      : inputs(random_ints(B * T, 1, V)), targets(random_ints(B * T, 2, V)), from(B * T), to(B * T, T) {}
  Batch batch(const Config& config) const {
    Batch b = {inputs.data(), targets.data(), B, T};
    if (config.crosses()) b.encoder = {inputs.data(), T, nullptr, from.data(), to.data()};
    return b;
  }
};

// Profiles the model, and returns its branches in a training pass on the same batch.
std::vector<Seen> profiled(Model& model) {
  const Tokens tokens(model.config.vocab_size);
  const Batch batch = tokens.batch(model.config);
  const Activations activations = allocate_activations(model.config, B, T, true);
  initialize(model, 7);
  profile_skip_gains(model, activations, batch, kDropout);
  Recorder recorder(model);
  model_loss_and_gradients(model, activations, batch, 1.f, kDropout, &recorder);
  std::erase_if(recorder.branches, [](const Seen& seen) { return seen.gain.empty(); });
  return recorder.branches;
}

std::vector<float> gains_of(const Model& model) {
  std::vector<float> gains;
  for (const TensorSpec& spec : model.table)
    if (spec.name.ends_with(".skip.gain")) gains.push_back(model.weights[spec.offset]);
  return gains;
}

std::vector<float> initial_gains(const Config& config, uint64_t seed = 7) {
  Model model(config, false);
  initialize(model, seed);
  return gains_of(model);
}

}  // namespace

TEST_CASE("Admin's gains are the authors' in a training pass", "[profile][model]") {
  for (const auto& change : kChanges) {
    Model model(admin(change));
    const std::vector<Seen> branches = profiled(model);
    const int layers = model.config.encoder_placement == "same" ? model.config.encoder_layers : 0;
    REQUIRE(branches.size() == size_t(2 * layers + model.config.branches() * model.config.n_layer));
    const double times = model.config.parametrization == Parametrization::completep ? 3 : 1;  // as many branches
    double want = 1;
    for (size_t k = 0; k < branches.size(); ++k) {
      const auto& [gain, omega, skipped, added] = branches[k];
      INFO(gain);
      if (gain.ends_with("block.0.attention.skip.gain")) want = 1;
      CHECK(omega == Approx(want).epsilon(1e-6));
      want = std::sqrt(skipped + times * added);
    }
  }
}

TEST_CASE("Admin's gains are the same if blocks share their activations", "[profile][model]") {
  for (const auto& change : kChanges) {
    Model model(admin(change), false);
    initialize(model, 7);
    const Tokens tokens(model.config.vocab_size);
    std::vector<std::vector<float>> gains;
    for (const Recompute recompute : {Recompute::none, Recompute::full, Recompute::full}) {
      Config config = model.config;
      config.recompute = recompute;
      const Activations activations = allocate_activations(config, B, T, true);
      profile_skip_gains(model, activations, tokens.batch(config), kDropout);
      gains.push_back(gains_of(model));
    }
    CHECK(gains[0] == gains[1]);
    CHECK(gains[1] == gains[2]);
  }
}

TEST_CASE("a profile refuses activations without the inputs of blocks", "[profile][model]") {
  Model model(admin(), false);
  const Tokens tokens(model.config.vocab_size);
  const Activations evaluation = allocate_activations(model.config, B, T, false);
  CHECK_THROWS_AS(profile_skip_gains(model, evaluation, tokens.batch(model.config), {}), std::logic_error);
}

TEST_CASE("Admin's squared gains are sums of variances", "[profile][model]") {
  for (const NormKind kind : {NormKind::layernorm, NormKind::batchnorm}) {
    Model model(admin([&](Config& c) { c.embedding_norm = true, c.norm = kind; }));
    const std::vector<Seen> branches = profiled(model);
    double sum = branches[0].skipped;  // near 1, but for dropout
    for (size_t k = 0; k < branches.size(); ++k) {
      if (k > 0) CHECK(std::pow(branches[k].omega, 2) == Approx(sum).epsilon(5e-5));
      sum += branches[k].added;
    }
  }
}

TEST_CASE("Admin's gains depend on the model and the seed alone", "[profile][model]") {
  for (const auto& change : {std::function<void(Config&)>([](Config& c) { c.dropout = .1f; }),
                             std::function<void(Config&)>(post_encoder)}) {
    const Config config = admin(change);
    const std::vector<float> gains = initial_gains(config);
    CHECK(gains[0] == 1);
    for (size_t k = 1; k < gains.size(); ++k) CHECK(gains[k] != gains[k - 1]);
    CHECK(gains == initial_gains(config));
    CHECK(gains.back() > initial_gains(admin([&](Config& c) { change(c), c.dropout = 0; })).back());
    CHECK(gains != initial_gains(config, 8));
    check_same_for_all_threads([&] { return initial_gains(config); });
  }
}

TEST_CASE("all tensors but Admin's gains start as without it", "[profile][model]") {
  for (const NormKind kind : {NormKind::layernorm, NormKind::batchnorm}) {
    const auto with = [&](Config& c) { c.norm = kind, c.dropout = .1f; };
    Model a(admin(with), false), b(admin([&](Config& c) { with(c), post(c); }), false);
    initialize(a, 7), initialize(b, 7);
    for (const TensorSpec& spec : b.table)
      CHECK(same_bits(read_floats(spec, b.weights.get()), std::vector<float>(tensor_of(a, spec.name),
                                                                             tensor_of(a, spec.name) + spec.size())));
  }
}

TEST_CASE("tensors that a checkpoint lacks are drawn without a profile", "[profile][model]") {
  Model model(admin());
  initialize(model, 7);
  for (const TensorSpec& spec : model.table)
    if (spec.name.ends_with(".skip.gain")) std::fill_n(&model.weights[spec.offset], spec.size(), .5f);
  std::vector<TensorSpec> lacking = model.table;
  std::erase_if(lacking, [](const TensorSpec& spec) { return spec.name.ends_with(".skip.gain"); });
  initialize(model, 8, lacking);
  for (const float gain : gains_of(model)) CHECK(gain == .5f);
}

TEST_CASE("a warm-up of branches does not change Admin's gains", "[profile][model]") {
  const auto prores = [](Config& c) { c.branch_warmup = BranchWarmup::prores, c.branch_warmup_steps = 10; };
  CHECK(initial_gains(admin(prores)) == initial_gains(admin()));
}

TEST_CASE("under completep Admin's gains are those of the base depth", "[profile][parametrization]") {
  const auto last = [](Parametrization kind, int layers) {
    return double(initial_gains(admin([&](Config& c) {
      c.parametrization = kind, c.n_layer = layers, c.base_layers = 2, c.base_channels = c.channels;
      c.embedding_norm = true;
    })).back());
  };
  const double base = last(Parametrization::sp, 2);
  CHECK(last(Parametrization::completep, 2) == base);
  CHECK(last(Parametrization::completep, 16) == Approx(base).epsilon(.1));
  CHECK(last(Parametrization::sp, 16) > 1.5 * base);
}
