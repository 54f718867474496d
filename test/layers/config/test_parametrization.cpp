// The table of parametrizations, and coordinate checks of its factors.

#include <algorithm>
#include <functional>

#include "layers/config/fields.hpp"
#include "layers/config/placements.hpp"
#include "layers/model/initialize.hpp"
#include "layers/training/coordinates.hpp"
#include "layers/training/run_optimizer.hpp"
#include "check.hpp"
#include "message.hpp"

namespace {

constexpr int B = 4, T = 24, V = 61, kTokens = 7, kSteps = 10;
constexpr uint64_t kSeeds = 3;

Config small(Parametrization kind, int channels = 32, int layers = 2) {
  Config c;
  c.parametrization = kind, c.base_channels = 32, c.base_layers = 2;
  c.channels = channels, c.n_layer = layers, c.n_head = 2, c.context = T, c.vocab_size = V;
  c.embedding_norm = true, c.bias = false;
  return c;
}

// What a coordinate check trains. Output matrices, or the gains of their norms, start at 0: what random ones put out is
// part of the change, and falls as the root of the size (layers/config/README.md).
struct Setting {
  const char* name;
  const char* optimizer = "adamw";
  double lr = 2e-3;
  std::function<void(Config&)> change = {};
  std::function<void(OptimizerOptions&)> options = {};
  bool logits = true;  // false: they are mostly those of random weights, which fall as the root of the width
};

StepOptions step_options(const Setting& setting) {
  const RunOptimizer& row = run_optimizer(setting.optimizer);
  StepOptions o;
  o.clip = 0;
  o.optimizer.beta2 = row.beta2, o.optimizer.momentum = row.momentum, o.optimizer.nesterov = row.nesterov;
  o.optimizer.weight_decay = 0;
  if (setting.options) setting.options(o.optimizer);
  return o;
}

const TensorSpec& spec_named(const Model& model, std::string_view name) {
  const auto spec = std::ranges::find(model.table, name, &TensorSpec::name);
  REQUIRE(spec != model.table.end());
  return *spec;
}

TensorFactors factors_of(const Model& model, std::string_view name) {
  return tensor_factors(spec_named(model, name), model.config, StepRule::sign);
}

// Sequences of a few tokens, in which each decides the next one up to a coin toss.
MicroBatches batch_of_step(int64_t step) {
  const auto numbers = std::make_shared<std::vector<int>>(2 * B * T);
  const std::vector<int> coins = random_ints(size_t(B) * (T + 1), 100 + uint64_t(step), V);
  for (int b = 0; b < B; ++b) {
    int token = coins[size_t(b) * (T + 1)] % kTokens;
    for (int t = 0; t < T; ++t) {
      (*numbers)[size_t(b) * T + t] = token;
      token = (3 * token + coins[size_t(b) * (T + 1) + t + 1] % 2) % kTokens;
      (*numbers)[size_t(B + b) * T + t] = token;
    }
  }
  return micro_batches({numbers->data(), numbers->data() + size_t(B) * T, B, T}, 1, numbers);
}

Model parametrized(const Config& config, const Setting& setting, uint64_t seed = 3) {
  Model model(config);
  const RunOptimizer& row = run_optimizer(setting.optimizer);
  assign_optimizers(model.table, row.rows);
  set_factors(model.table, model.config, step_options(setting).optimizer.muon_scale);
  initialize(model, seed);
  // resolve() refuses zero_init with norms after the branch. A norm_out then starts at 0; with a norm of the sums that
  // branches read, the outputs do.
  const bool normed = model.config.placement_row->streams == StreamRule::attnres_normed;
  for (const TensorSpec& spec : model.table)
    if (spec.part.ends_with(".norm_out.gain") || (normed && (spec.role == Role::o || spec.role == Role::ffn_out)))
      std::fill_n(model.weights.get() + spec.offset, spec.size(), 0.f);
  return model;
}

std::vector<Change> last_changes(Config config, const Setting& setting, uint64_t seed) {
  config.zero_init = true;
  if (setting.change) setting.change(config);
  StepFunctions functions = kFastStep;
  functions.optimizers = run_optimizer(setting.optimizer).rows;
  TrainingState state(parametrized(config, setting, seed), B, T, functions);
  return changes_by_step(state, {kSteps, setting.lr, step_options(setting), batch_of_step}).back();
}

struct Slopes {
  double parts[std::size(kCheckedParts)] = {};
  double largest() const {
    double most = 0;
    for (const double slope : parts) most = std::max(most, std::isnan(slope) ? INFINITY : std::fabs(slope));
    return most;
  }
  std::string text() const {
    std::string s;
    for (size_t i = 0; i < std::size(kCheckedParts); ++i)
      s += std::string(kCheckedParts[i]) + " " + std::to_string(parts[i]) + "  ";
    return s;
  }
};

// The exponents of the size with which the changes after the last step grow. Blocks differ by their random weights, so
// few of them need several seeds.
Slopes slopes_of(const Setting& setting, const std::vector<int>& sizes, const std::function<Config(int)>& model) {
  std::vector<std::pair<double, double>> points[std::size(kCheckedParts)];
  for (const int size : sizes)
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const std::vector<Change> changes = last_changes(model(size), setting, seed);
      for (size_t part = 0; part < std::size(kCheckedParts); ++part)
        points[part].emplace_back(size, size_of_change(changes, kCheckedParts[part]));
    }
  Slopes slopes;
  for (size_t part = 0; part < std::size(kCheckedParts); ++part) slopes.parts[part] = log_log_slope(points[part]);
  return slopes;
}

// The first of the sizes is that of the base model.
Slopes slopes_in_width(const Setting& setting, Parametrization kind = Parametrization::mup,
                       const std::vector<int>& widths = {32, 64, 128}) {
  return slopes_of(setting, widths, [&](int width) {
    Config c = small(kind, width);
    c.base_channels = widths[0];
    return c;
  });
}
Slopes slopes_in_depth(const Setting& setting, Parametrization kind = Parametrization::completep) {
  const std::vector<int> depths = {2, 4, 8, 16};
  return slopes_of(setting, depths, [&](int depth) {
    Config c = small(kind, 32, depth);
    c.base_layers = depths[0];
    return c;
  });
}

// An epsilon far above the gradients, so that a step of AdamW is g/ε.
void large_epsilon(OptimizerOptions& o) { o.eps = 1; }
// Decay that changes the weights more than their gradients do.
void strong_decay(OptimizerOptions& o) { o.weight_decay = 3000; }
void random_outputs(Config& c) { c.zero_init = false; }

// Tensors of every kind.
void all_of_attention(Config& c) {
  c.tied = false, c.bias = c.head_bias = true, c.position = Position::relative, c.qk_norm = QkNormKind::head;
  c.attention_sinks = true, c.head_scale = true, c.output_gate = OutputGate::headwise;
  c.value_residual = ValueResidual::learned;
}
// All experts work for each token: which ones a router chooses is not continuous.
void mixture(Config& c) { c.experts = c.experts_per_token = 3, c.router_logit_bias = true; }
void biases(Config& c) { c.bias = c.head_bias = true; }
void scalenorm(Config& c) { c.norm = NormKind::scalenorm; }
void derf(Config& c) { c.norm = NormKind::derf, c.bias = true; }
void fixnorm(Config& c) { c.fix_norm = true; }
void gatednorm(Config& c) { c.norm = NormKind::gatednorm, c.gated_norm_rank = 4; }

const Setting kSettings[] = {
    {.name = "adamw", .lr = 4e-3},
    {.name = "adamw, large epsilon", .lr = .5, .options = large_epsilon},
    {.name = "adamw, strong decay", .lr = 1e-5, .change = random_outputs, .options = strong_decay, .logits = false},
    {.name = "sgd", .optimizer = "sgd", .lr = .05},
    {.name = "muon", .optimizer = "muon"},
    {.name = "biases, sgd", .optimizer = "sgd", .lr = .1, .change = biases},
    {.name = "all of attention", .change = all_of_attention},
    {.name = "all of attention, sgd", .optimizer = "sgd", .lr = .3, .change = all_of_attention},
};
const Setting kMoreSettings[] = {
    {.name = "biases", .lr = 4e-3, .change = biases},
    {.name = "lion", .optimizer = "lion", .lr = 3e-3},
    {.name = "muon, spectral", .optimizer = "muon",
     .options = [](OptimizerOptions& o) { o.muon_scale = MuonScale::spectral; }},
    {.name = "normuon", .optimizer = "normuon"},
    {.name = "adafactor", .optimizer = "adafactor", .lr = .1, .change = random_outputs},
    {.name = "all of attention, muon", .optimizer = "muon", .change = all_of_attention},
    {.name = "mixture", .lr = 4e-3, .change = mixture},
    {.name = "mixture, sgd", .optimizer = "sgd", .lr = .05, .change = mixture},
    {.name = "scalenorm", .lr = 4e-3, .change = scalenorm},
    {.name = "scalenorm, sgd", .optimizer = "sgd", .lr = .05, .change = scalenorm},
    {.name = "derf", .lr = 1e-3, .change = derf},
    {.name = "gatednorm", .lr = 4e-3, .change = gatednorm},
    {.name = "gatednorm, sgd", .optimizer = "sgd", .lr = .05, .change = gatednorm},
    {.name = "fixnorm", .lr = 4e-3, .change = fixnorm},
    {.name = "fixnorm, sgd", .optimizer = "sgd", .lr = .05, .change = fixnorm},
};

}  // namespace

namespace {

constexpr double kFlat = .1;  // measured: at most .091

void check_flat(const std::string& name, const Slopes& slopes, bool of_logits = true) {
  INFO(name << ": " << slopes.text());
  for (size_t part = 0; part < std::size(kCheckedParts); ++part)
    if (of_logits || kCheckedParts[part] != std::string("logits")) CHECK(std::fabs(slopes.parts[part]) <= kFlat);
}

}  // namespace

TEST_CASE("under mup and completep changes do not depend on the width", "[parametrization][coordinates]") {
  for (const Setting& setting : kSettings) check_flat(setting.name, slopes_in_width(setting), setting.logits);
  check_flat("completep", slopes_in_width(kSettings[0], Parametrization::completep));
}

TEST_CASE("under completep changes do not depend on the depth", "[parametrization][coordinates]") {
  for (const Setting& setting : kSettings) check_flat(setting.name, slopes_in_depth(setting), setting.logits);
}

TEST_CASE("changes depend on neither with other optimizers and norms", "[parametrization][coordinates][nightly]") {
  for (const Setting& setting : kMoreSettings) {
    check_flat(setting.name, slopes_in_width(setting));
    check_flat(setting.name, slopes_in_depth(setting));
  }
}

namespace {

Setting of_placement(const Placement& row, double lr) {
  return {.name = row.name, .lr = lr, .change = [&row](Config& c) {
            const bool normed = row.norm_out || row.streams == StreamRule::attnres_normed;
            c.placement = row.name, c.zero_init = !normed && row.gain != LearnedGain::block;
          }};
}

}  // namespace

TEST_CASE("under completep changes do not depend on the depth with any placement", "[parametrization][coordinates]") {
  for (const Placement& row : placements())
    if (row.depth != DepthRule::none) check_flat(row.name, slopes_in_depth(of_placement(row, 5e-4)));
}

namespace {

bool is_derived(const Placement& row, Parametrization kind) {
  if (row.streams == StreamRule::sphere) return false;
  return kind != Parametrization::completep || row.depth != DepthRule::none;
}

}  // namespace

TEST_CASE("under mup changes do not depend on the width with any placement",
          "[parametrization][coordinates][nightly]") {
  for (const Placement& row : placements()) {
    if (!is_derived(row, Parametrization::mup)) continue;
    const double lr = row.norm_in || row.norm_out || row.norm_sum ? 3e-3 : 4e-3;
    check_flat(row.name, slopes_in_width(of_placement(row, lr), Parametrization::mup, {64, 128, 256}));
  }
}

namespace {

// A Config of nGPT, whose heads grow in number with the width.
Config unit_vectors_of(int channels, int layers, Parametrization kind = Parametrization::nugpt) {
  Config c = small(kind, channels, layers);
  c.placement = "ngpt", c.activation = Activation::swiglu, c.qk_norm = QkNormKind::unit, c.position = Position::rope;
  c.up_gain = c.logit_gain = c.normed_weights = true, c.tied = c.embedding_norm = false;
  c.n_head = channels / 16, c.base_heads = 2, c.hidden = 4 * channels;
  return c;
}

}  // namespace

namespace {

struct UnitSetting {
  const char* optimizer;
  double lr;
  double width[std::size(kCheckedParts)];  // the slopes that are right
  MuonScale scale = MuonScale::rms;
};

// Numbers of vectors of length 1 fall as the root of the width: those of the stream, and of what attention puts out. In
// these steps AdamW's changes of matrices are aligned with what they read, so that they grow as C^(1 - 3/4) next to it.
// Those of Muon are orthogonal, and those of SGD small next to the embedding's. The logits' grow as C^¼ by the head's
// changes, and as C^½ by the embedding's, which point along the rows of the head at first.
const UnitSetting kUnitSettings[] = {
    {"adamw", 1e-3, {-.375, -.25, .25, .375}},
    {"sgd", .1, {-.5, -.5, 0, .375}},
    {"muon", 4e-3, {-.5, -.5, 0, .25}},
    {"muon", 1.6e-2, {-.5, -.5, 0, .25}, MuonScale::spectral},
};

Setting setting_of(const UnitSetting& row) {
  return {.name = row.optimizer, .optimizer = row.optimizer, .lr = row.lr, .change = random_outputs,
          .options = [scale = row.scale](OptimizerOptions& o) { o.muon_scale = scale; }};
}

}  // namespace

TEST_CASE("under nugpt changes do not depend on the depth", "[parametrization][coordinates][ngpt][nugpt]") {
  for (const UnitSetting& row : kUnitSettings)
    check_flat(row.optimizer,
               slopes_of(setting_of(row), {2, 4, 8, 16}, [](int depth) { return unit_vectors_of(32, depth); }));
}

TEST_CASE("under nugpt vectors of length 1 turn as far at every width", "[parametrization][coordinates][ngpt][nugpt]") {
  for (const UnitSetting& row : kUnitSettings) {
    Slopes slopes =
        slopes_of(setting_of(row), {32, 64, 128}, [](int width) { return unit_vectors_of(width, 2); });
    for (size_t part = 0; part < std::size(kCheckedParts); ++part) slopes.parts[part] -= row.width[part];
    check_flat(row.optimizer, slopes);
  }
}

TEST_CASE("factors of nGPT's tensors", "[parametrization][ngpt][nugpt]") {
  const Model model(unit_vectors_of(128, 6));  // m = 4, l = 3
  const double m = 4, l = 3, root = 2;
  struct Row {
    const char* name;
    double start, rate, epsilon;
  };
  for (const Row& row : {Row{"embedding.token.weight", 1 / root, 1 / root, 1},
                         {"block.3.attention.streams.rate", 1 / root, 1 / root, 1 / l},
                         {"block.3.attention.q.weight", 1 / root, std::pow(m, -.75), 1 / (root * l)},
                         {"block.3.attention.o.weight", 1 / root, std::pow(m, -.75), 1 / (root * l)},
                         {"block.3.attention.qk.gain", 1 / root, 1 / root, 1 / l},
                         {"block.3.ffn.up.weight", 1 / root, std::pow(m, -.75), 1 / (root * l)},
                         {"block.3.ffn.hidden.gain", 1, 1, 1 / (root * l)},
                         {"block.3.ffn.down.weight", 1 / root, std::pow(m, -.75), 1 / (root * l)},
                         {"head.weight", 1 / root, std::pow(m, -.75), 1},
                         {"head.logits.gain", 1 / root, 1 / root, root}}) {
    INFO(row.name);
    const TensorFactors got = factors_of(model, row.name);
    CHECK(got.start == Approx(row.start));
    CHECK(got.rate == Approx(row.rate));
    CHECK(got.epsilon == Approx(row.epsilon));
  }
  const TensorSpec& q = spec_named(model, "block.3.attention.q.weight");
  CHECK(tensor_factors(q, model.config, StepRule::orthogonal).rate == Approx(1));
  CHECK(*model.config.logit_scale == Approx(root));
  CHECK(*model.config.branch_scale == 1);
  CHECK(double(model.p.blocks[3].ffn.streams.rate_factor) == Approx(std::sqrt(128.) * .05 / l));
  CHECK(*model.config.attention_scale == Approx(std::sqrt(16.)));
  Config wide = unit_vectors_of(128, 6);
  wide.n_head = 2;  // heads that grow
  CHECK(*resolve(wide).attention_scale == Approx(std::sqrt(16.)));
  wide.position = Position::learned, wide.head_bias = true;
  CHECK(contains(message_of<std::invalid_argument>([&] { Model m(wide); }), "nugpt has no rule for head.bias"));
}

TEST_CASE("the standard parametrization fails the coordinate check", "[parametrization][coordinates]") {
  CHECK(slopes_in_width(kSettings[0], Parametrization::sp).largest() > .5);
  CHECK(slopes_in_depth(kSettings[0], Parametrization::sp).largest() > .4);
  CHECK(slopes_in_depth(kSettings[0], Parametrization::mup).largest() > .4);  // it has no rule for the depth
}

namespace {

constexpr Parametrization kScaled[] = {Parametrization::mup, Parametrization::completep};

std::vector<float> trained(const Config& config) {
  const Setting setting{.name = "adamw", .options = [](OptimizerOptions& o) { o.weight_decay = .1f; }};
  TrainingState state(parametrized(config, setting), B, T);
  for (int step = 0; step < 3; ++step) training_step(state, batch_of_step(step), step_options(setting), step, 1e-3);
  return {state.model.weights.get(), state.model.weights.get() + state.model.floats};
}

}  // namespace

TEST_CASE("with the sizes of the base model all parametrizations are the same to the bit", "[parametrization][long]") {
  for (const Placement& row : placements()) {
    INFO(row.name);
    Config c = small(Parametrization::sp);
    c.placement = row.name, c.experts = 3, c.head_bias = true;
    const std::vector<float> standard = trained(c);
    for (const Parametrization kind : kScaled) {
      if (!is_derived(row, kind)) continue;
      c.parametrization = kind;
      CHECK(same_bits(trained(c), standard));
    }
  }
}

TEST_CASE("with the sizes of the base model nugpt is the standard to the bit", "[parametrization][ngpt][nugpt]") {
  CHECK(same_bits(trained(unit_vectors_of(32, 2)), trained(unit_vectors_of(32, 2, Parametrization::sp))));
}

TEST_CASE("factors of tensors", "[parametrization]") {
  struct Row {
    const char* name;
    double start, rate, epsilon;
  };
  Config c = small(Parametrization::completep, 128, 6);  // m = 4, l = 3
  c.n_head = 4, c.base_heads = 2;                        // h = 2
  c.placement = "mix-ln", c.mix_fraction = .5, c.tied = false, c.head_bias = true, c.qk_norm = QkNormKind::head;
  c.attention_sinks = true, c.head_scale = true, c.output_gate = OutputGate::headwise, c.experts = 2;
  c.router_logit_bias = true, c.position = Position::relative, c.stream_mix = true, c.token_types = 2;
  c.value_residual = ValueResidual::learned, c.bias = true;
  const double m = 4, l = 3, h = 2;
  const Model model(c);
  for (const Row& row : {Row{"embedding.token.weight", 1, 1, 1 / m},
                         {"embedding.token_type.weight", 1, 1, 1 / m},
                         {"relative.weight", 1, 1, 1 / h},
                         {"block.0.stream_mix.own", 1, 1 / l, 1},
                         {"block.0.attention.q.weight", 1 / std::sqrt(m), 1 / m, 1 / (m * l)},
                         {"block.0.attention.q.bias", 1, 1, 1 / (m * l)},
                         {"block.0.attention.q_norm.gain", 1, 1, h / (m * l)},
                         {"block.0.attention.output_gate.weight", std::sqrt(h) / m, 1 / m, 1 / (h * l)},
                         {"block.0.attention.output_gate.bias", 1, 1, 1 / (h * l)},
                         {"block.0.attention.sinks", 1, 1, 1 / (h * l)},
                         {"block.0.attention.head_scale.gain", 1, 1, 1 / (h * l)},
                         {"block.0.attention.norm_sum.gain", 1, 1 / l, 1 / m},
                         {"block.0.attention.norm_sum.bias", 1, 1 / l, 1 / m},
                         {"block.1.attention.value_mix.own", 1, 1, 1 / l},
                         {"block.0.ffn.router.weight", 1 / m, 1 / m, 1 / l},
                         {"block.0.ffn.router.bias", 1, 1, 1 / l},
                         {"block.0.ffn.expert.1.down.weight", 1 / std::sqrt(m), 1 / m, 1 / (m * l)},
                         {"block.5.ffn.norm_in.gain", 1, 1, 1 / (m * l)},
                         {"final_norm.gain", 1, 1, 1 / m},
                         {"head.weight", 1, 1, 1 / m},
                         {"head.bias", 1, 1, 1}}) {
    INFO(row.name);
    const TensorFactors got = factors_of(model, row.name);
    CHECK(got.start == Approx(row.start));
    CHECK(got.rate == Approx(row.rate));
    CHECK(got.decay == Approx(1 / row.rate));
    CHECK(got.epsilon == Approx(row.epsilon));
  }
  CHECK(*model.config.logit_scale == Approx(1 / m));
  CHECK(*model.config.branch_scale == Approx(1 / l));
  CHECK(*model.config.attention_scale == Approx(std::sqrt(16.) / 32));  // √D₀/D
}

TEST_CASE("the gate of GPAS and Admin's gains act on the whole stream", "[parametrization]") {
  Config c = small(Parametrization::completep, 128, 6);  // m = 4, l = 3
  for (const auto& [placement, tensor, epsilon] :
       {std::tuple{"gpas", "block.4.gpas.gate", 1.}, {"admin", "block.4.ffn.skip.gain", 1 / 4.}}) {
    c.placement = placement;
    const TensorFactors got = factors_of(Model(c), tensor);
    CHECK(got.rate == Approx(1 / 3.));
    CHECK(got.epsilon == Approx(epsilon));
  }
}

TEST_CASE("factors of ScaleNorm's gain, which starts at the root of the width", "[parametrization]") {
  Config c = small(Parametrization::mup, 128);  // m = 4
  c.norm = NormKind::scalenorm;
  const Model model(c);
  const TensorFactors got = factors_of(model, "final_norm.gain");
  CHECK(got.start == Approx(2));
  CHECK(got.rate == Approx(2));
  CHECK(got.epsilon == Approx(.5));
  c.norm_sites[size_t(NormSite::in)] = NormChoice{NormKind::layernorm};
  const Model other(c);  // at another site
  CHECK(factors_of(other, "block.0.ffn.norm_in.gain").rate == 1);
}

TEST_CASE("factors of GatedNorm's gate, whose rank does not grow", "[parametrization]") {
  Config c = small(Parametrization::completep, 128, 6);  // m = 4, l = 3
  gatednorm(c);
  const double m = 4, l = 3;
  const Model model(c);
  struct Row {
    const char* name;
    double start, rate, epsilon;
  };
  for (const Row& row : {Row{"block.2.ffn.norm_in.down", 1 / m, 1 / m, 1 / l},
                         {"block.2.ffn.norm_in.up", 1, 1, 1 / (m * l)},
                         {"final_norm.down", 1 / m, 1 / m, 1},
                         {"final_norm.up", 1, 1, 1 / m}}) {
    INFO(row.name);
    const TensorFactors got = factors_of(model, row.name);
    CHECK(got.start == Approx(row.start));
    CHECK(got.rate == Approx(row.rate));
    CHECK(got.epsilon == Approx(row.epsilon));
    CHECK(spec_named(model, row.name).start.deviation == Approx(.02 * row.start));
  }
}

TEST_CASE("factors of the gated residual's matrices, whose rank does not grow", "[parametrization]") {
  Config c = small(Parametrization::mup, 128);  // m = 4
  c.placement = "gated-residual";
  const Model model(c);
  const TensorFactors weight = factors_of(model, "block.0.ffn.streams.weight"),
                      up = factors_of(model, "block.0.ffn.streams.up");
  CHECK(weight.start == .25);
  CHECK(weight.rate == .25);
  CHECK(weight.epsilon == 1);
  CHECK(up.start == 1);
  CHECK(up.rate == 1);
  CHECK(up.epsilon == .25);
}

TEST_CASE("factors of the queries of attention residuals, with and without a factor on their products",
          "[parametrization]") {
  Config c = small(Parametrization::mup, 128);  // m = 4
  for (const auto& [placement, start, rate, epsilon] :
       {std::tuple{"attnres", .25, .25, 1.}, {"attnres-normed", .5, .5, .5}}) {
    c.placement = placement;
    const TensorFactors got = factors_of(Model(c), "block.0.ffn.streams.query");
    CHECK(got.start == start);
    CHECK(got.rate == rate);
    CHECK(got.epsilon == epsilon);
  }
}

TEST_CASE("initial weights have the factors of their tensors, times what the base model draws", "[parametrization]") {
  for (const char* placement : {"pre", "deepnorm", "sub-ln", "b2t", "hybridnorm"}) {
    INFO(placement);
    Config c = small(Parametrization::sp);
    c.placement = placement;
    const Model base(c);
    const Config large = small(Parametrization::completep, 128, 6);
    c.parametrization = large.parametrization, c.channels = large.channels, c.n_layer = large.n_layer;
    const Model model(c);
    for (const TensorSpec& spec : base.table) {
      INFO(spec.name);
      const double drawn = double(spec_named(model, spec.name).start.deviation);
      CHECK(drawn == Approx(double(spec.start.deviation) * factors_of(model, spec.name).start));
    }
    CHECK(*model.config.skip_scale == *base.config.skip_scale);
  }
}

TEST_CASE("Xavier's weights are what the base model draws, whichever sides of a matrix grow", "[parametrization]") {
  Config c = small(Parametrization::sp);
  c.init = InitChoice::xavier, c.experts = 2, c.output_gate = OutputGate::headwise;
  gatednorm(c);
  const Model base(c);
  const Config large = small(Parametrization::mup, 128);
  c.parametrization = large.parametrization, c.channels = large.channels, c.n_head = 4, c.base_heads = 2;
  const Model model(c);
  for (const TensorSpec& spec : base.table) {
    INFO(spec.name);
    const double drawn = double(spec_named(model, spec.name).start.deviation);
    CHECK(drawn == Approx(double(spec.start.deviation) * factors_of(model, spec.name).start));
  }
}

TEST_CASE("options that are given keep their values", "[parametrization]") {
  Config c = small(Parametrization::completep, 128, 6);
  c.logit_scale = 3, c.branch_scale = 5, c.attention_scale = 7, c.skip_scale = 9;
  const Config closed = resolve(c);
  CHECK(*closed.logit_scale == 3);
  CHECK(*closed.branch_scale == 5);
  CHECK(*closed.attention_scale == 7);
  CHECK(*closed.skip_scale == 9);
}

TEST_CASE("a block has the constants of the base block at its relative depth", "[parametrization]") {
  Config c = small(Parametrization::completep, 32, 6);
  c.base_layers = 3;
  for (const char* placement : {"lns", "hybridnorm-star"}) {
    c.placement = placement;
    const Model model(c);
    for (int l = 0; l < 6; ++l) {
      CHECK(double(model.p.blocks[l].attention.in_scale) ==
            Approx(placement == std::string("lns") ? 1 / std::sqrt(l / 2 + 1.) : 1));
      if (placement != std::string("lns")) CHECK(model.p.blocks[l].attention.norm_in.present() == (l < 2));
    }
  }
}

TEST_CASE("completep computes what Keel's own factor does", "[parametrization]") {
  Config c = small(Parametrization::sp, 32, 6);
  c.placement = "keel", c.norm_eps = 0;
  Model own(c);
  c.parametrization = Parametrization::completep;
  Model scaled(c);
  for (Model* model : {&own, &scaled}) initialize(*model, 3);
  REQUIRE(*own.config.skip_scale == 12);
  REQUIRE(*scaled.config.skip_scale == 4);
  const std::vector<int> tokens = random_ints(B * T, 1, V);
  const auto logits_of = [&](const Model& model) {
    std::vector<float> logits(size_t(B) * T * V);
    batch_logits(logits.data(), model, allocate_activations(model.config, B, T, false), {tokens.data(), nullptr, B, T});
    return logits;
  };
  check_close("parametrization/keel/logits", logits_of(scaled), widen(logits_of(own)), 1e-5);
}

TEST_CASE("parametrizations without a rule are refused in one line", "[parametrization]") {
  const auto refusal = [](const std::function<void(Config&)>& change) {
    Config c = small(Parametrization::completep);
    change(c);
    return message_of<std::invalid_argument>([&] { resolve(c); });
  };
  CHECK(contains(refusal([](Config& c) { c.base_channels = 0; }), "base-channels, the width at which"));
  CHECK(contains(refusal([](Config& c) { c.base_layers = 0; }), "base-layers, the depth at which"));
  for (const char* placement : {"hyper", "hyper-static", "mhc", "mhc-read", "mhc-mean", "hyper-independent",
                                "gated-residual", "attnres", "attnres-normed"})
    CHECK(contains(refusal([&](Config& c) { c.placement = placement; }), "choose mup, or another placement"));
  CHECK(contains(refusal([](Config& c) { c.placement = "post", c.norm = NormKind::gatednorm; }),
                 "not derived for norm-sum gatednorm"));
  CHECK(refusal([](Config& c) {
          c.placement = "post", c.norm = NormKind::gatednorm, c.norm_sites[3] = NormChoice{NormKind::rmsnorm};
          c.norm_sites[4] = NormChoice{NormKind::gatednorm}, c.final_norm = true;
        }) == "");
  CHECK(contains(refusal([](Config& c) { c.lora_rank = 2; }), "no rule for adapters"));
  CHECK(contains(refusal([](Config& c) { c.embedding_channels = 8; }), "narrower than the stream"));
  CHECK(contains(refusal([](Config& c) { c.encoder_layers = 2, c.objective = Objective::pairs; }), "cross attention"));
}
