#include "data/options/options.hpp"

#include <cmath>
#include <limits>

#include "check.hpp"
#include "layers/config/norm_sites.hpp"
#include "message.hpp"

namespace {

// A config with a vocabulary and a test's changes.
template <class Change>
Config with(Change change) {
  Config config;
  config.vocab_size = 100;
  change(config);
  return config;
}

template <class Change>
std::string refusal(Change change) {
  return message_of<std::invalid_argument>([&] { resolved(with(change)); });
}

}  // namespace

TEST_CASE("the table of placements", "[config]") {
  struct Row {
    const char* name;
    bool in, inner, out, sum, final;
    double skip8 = 1, gain32 = 1;  // α of 8 layers, β of 32
    StreamRule streams = StreamRule::single;
    StreamEnd end = StreamEnd::sum;
  };
  for (const auto& [name, in, inner, out, sum, final, skip8, gain32, streams, end] :
       {Row{"post", 0, 0, 0, 1, 0},
        {"pre", 1, 0, 0, 0, 1},
        {"sandwich", 1, 0, 1, 0, 1},
        {"deepnorm", 0, 0, 0, 1, 0, 2, .25},      // (2·8)^¼, (8·32)^-¼
        {"reordered", 0, 0, 1, 0, 1},
        {"none", 0, 0, 0, 0, 0},
        {"glm-deepnorm", 0, 0, 0, 1, 0, 4, .125},  // (2·8)^½, (2·32)^-½
        {"pre-post", 1, 0, 0, 1, 0},
        {"mix-ln", 1, 0, 0, 0, 1},
        {"lns", 1, 0, 0, 0, 1},
        {"b2t", 0, 0, 0, 1, 0, 1, .1767767},  // 32^-½
        {"normformer", 1, 0, 1, 0, 1},
        {"sub-ln", 1, 1, 0, 0, 1, 1, 2.0393338},  // √(ln 64)
        {"layerscale", 1, 0, 0, 0, 1},
        {"rezero", 0, 0, 0, 0, 0},
        {"gpas", 1, 0, 0, 0, 1},
        {"admin", 0, 0, 0, 1, 0},
        {"keel", 1, 0, 0, 1, 0, 16},  // 2·8
        {"hybridnorm", 0, 0, 0, 1, 1},
        {"hybridnorm-star", 0, 0, 0, 1, 1},
        {"hyper", 1, 0, 0, 0, 1, 1, 1, StreamRule::hyper},
        {"hyper-static", 1, 0, 0, 0, 1, 1, 1, StreamRule::hyper_static},
        {"mhc", 1, 0, 0, 0, 1, 1, 1, StreamRule::mhc},
        {"mhc-read", 1, 0, 0, 0, 1, 1, 1, StreamRule::mhc, StreamEnd::read},
        {"mhc-mean", 1, 0, 0, 0, 1, 1, 1, StreamRule::mhc, StreamEnd::mean},
        {"hyper-independent", 1, 0, 0, 0, 1, 1, 1, StreamRule::independent, StreamEnd::read},
        {"gated-residual", 0, 0, 0, 0, 0, 1, 1, StreamRule::gated, StreamEnd::read},
        {"resi-dual", 0, 0, 0, 1, 1, 1, 1, StreamRule::dual},
        {"siamese", 1, 0, 0, 1, 1, 1, 1, StreamRule::siamese},
        {"attnres", 1, 0, 0, 0, 1, 1, 1, StreamRule::attnres},
        {"attnres-normed", 1, 0, 0, 0, 1, 1, 1, StreamRule::attnres_normed},
        {"ngpt", 0, 0, 0, 0, 0, 1, 1, StreamRule::sphere}}) {
    INFO(name);
    const Placement& p = placement_row(name);
    CHECK(p.name == std::string(name));
    CHECK(p.norm_in == in);
    CHECK(p.norm_inner == inner);
    CHECK(p.norm_out == out);
    CHECK(p.norm_sum == sum);
    CHECK(p.final_norm == final);
    CHECK(p.streams == streams);
    CHECK(p.stream_end == end);
    CHECK(p.skip({8}) == skip8);
    CHECK(p.init.gain({32}) == Approx(gain32).epsilon(1e-7));
    CHECK(p.in_scale(3) == (p.name == std::string("lns") ? .5 : 1));  // 1/√4: layer 3 is the fourth
    CHECK(p.first_write(1) == (p.name == std::string("siamese") ? .5 : 1));  // 1/√(2·2)
    CHECK((p.gain == LearnedGain::channel) == (p.name == std::string("layerscale")));
    CHECK((p.gain == LearnedGain::block) == (p.name == std::string("rezero")));
    CHECK(p.bypass == (p.name == std::string("b2t")));
    CHECK(p.gpas == (p.name == std::string("gpas")));
    CHECK(p.skip_gain == (p.name == std::string("admin")));
    CHECK(p.init.qk_gain == (p.name == std::string("b2t")));
    CHECK(p.head_scale == (p.name == std::string("normformer")));
  }
  CHECK(placements().size() == 32);
}

TEST_CASE("under mix-ln the first blocks are Post-LN and the others Pre-LN", "[config]") {
  const auto names = [](int layers, double fraction) {
    const Config c = resolve(
        with([&](Config& c) { c.placement = "mix-ln", c.n_layer = layers, c.mix_fraction = fraction; }));
    std::string list;
    for (int l = 0; l < layers; ++l) list += placement_at(c, l, "ffn").norm_sum ? 's' : 'i';
    return list;
  };
  CHECK(names(12, .25) == "sssiiiiiiiii");
  CHECK(names(7, .25) == "siiiiii");  // ⌊1.75⌋
  CHECK(names(3, .25) == "iii");
  CHECK(names(4, 0) == "iiii");
  CHECK(names(4, 1) == "ssss");
  CHECK(names(100, .29).find('i') == 29);  // .29 · 100 is below 29 in double
  const Config post = resolve(with([](Config& c) { c.placement = "post", c.mix_fraction = 0; }));
  CHECK(placement_at(post, 0, "attention").name == std::string("post"));
}

TEST_CASE("HybridNorm's branches have rows of their own, and the first block of HybridNorm* is Pre-LN", "[config]") {
  const auto rows = [](const char* placement) {
    const Config c = resolve(with([&](Config& c) { c.placement = placement, c.n_layer = 3; }));
    CHECK(c.qk_norm == QkNormKind::qkv);
    std::string list;
    for (int l = 0; l < 3; ++l)
      for (const char* branch : {"attention", "ffn"}) list += std::string(placement_at(c, l, branch).name) + " ";
    return list;
  };
  CHECK(rows("hybridnorm") == "hybridnorm none hybridnorm none hybridnorm none ");
  CHECK(rows("hybridnorm*") == "pre pre hybridnorm-star none hybridnorm-star none ");
  const Config other = resolve(with([](Config& c) { c.placement = "hybridnorm", c.qk_norm = QkNormKind::head; }));
  CHECK(other.qk_norm == QkNormKind::head);
  for (const std::string placement : {"hybridnorm", "hybridnorm-star"})
    CHECK(contains(refusal([&](Config& c) { c.placement = placement, c.norm = NormKind::dyt; }),
                   "--placement " + placement +
                       " normalizes q, k and v, which goes with --norm layernorm or rmsnorm only"));
}

TEST_CASE("NormFormer scales heads unless told not to, and its feed-forward branch is that of sub-ln", "[config]") {
  const auto config = [](const char* placement, std::optional<bool> head_scale) {
    return resolve(with([&](Config& c) { c.placement = placement, c.head_scale = head_scale; }));
  };
  CHECK(*config("normformer", {}).head_scale);
  CHECK_FALSE(*config("normformer", false).head_scale);
  CHECK(*config("pre", true).head_scale);
  CHECK_FALSE(*config("pre", {}).head_scale);
  CHECK(placement_at(config("normformer", {}), 0, "attention").name == std::string("normformer"));
  CHECK(placement_at(config("normformer", {}), 0, "ffn").name == std::string("sub-ln"));
}

TEST_CASE("LayerScale starts smaller in deeper models", "[config]") {
  for (const auto& [layers, start] : {std::pair{1, .1}, {18, .1}, {19, 1e-5}, {24, 1e-5}, {25, 1e-6}, {48, 1e-6}})
    CHECK(*resolve(with([layers = layers](Config& c) { c.n_layer = layers; })).layer_scale_init == start);
  CHECK(*resolve(with([](Config& c) { c.layer_scale_init = .5; })).layer_scale_init == .5);
}

TEST_CASE("parallel blocks need a norm before each branch and none after the sum", "[config]") {
  std::string fitting;
  for (const Placement& row : placements()) {
    const std::string message = refusal([&](Config& c) { c.placement = row.name, c.block = BlockForm::parallel; });
    if (message.empty()) fitting += std::string(fitting.empty() ? "" : "|") + row.name;
    if (message.empty()) continue;
    const std::string needs =
        "a placement with a norm before each branch, no norm after the sum, the same norms in both and one stream, "
        "not ";
    CHECK(contains(message, "--block parallel needs " + needs + row.name));
    CHECK(contains(message, std::string(row.name) + ": choose pre|sandwich|lns|sub-ln|layerscale, or "));
  }
  CHECK(fitting == "pre|sandwich|lns|sub-ln|layerscale");
  CHECK(contains(refusal([](Config& c) { c.placement = "post", c.block = BlockForm::parallel_shared; }),
             "--block parallel-shared needs"));
}

TEST_CASE("placements have their usual aliases, and a misspelled one suggests the nearest", "[config]") {
  for (const auto& [alias, name] : {std::pair{"post-ln", "post"},
                                    {"pre-ln", "pre"},
                                    {"peri-ln", "sandwich"},
                                    {"peri", "sandwich"},
                                    {"olmo2", "reordered"},
                                    {"deepnet", "deepnorm"},
                                    {"magneto", "sub-ln"},
                                    {"layernorm-scaling", "lns"}})
    CHECK(resolve(with([alias = alias](Config& c) { c.placement = alias; })).placement == name);
  CHECK(contains(refusal([](Config& c) { c.placement = "deepnrom"; }),
             "unknown placement 'deepnrom': did you mean 'deepnorm'?"));
  CHECK(contains(unknown_name("norm", "rsnorm", {"layernorm", "rmsnorm"}),
             "did you mean 'rmsnorm'? (one of layernorm rmsnorm)"));
  CHECK_THROWS_AS(value_of(kActivations, "activation", "gelo"), std::invalid_argument);
  CHECK(value_of(kActivations, "activation", "gelu-tanh") == Activation::gelu_tanh);
  CHECK(name_of(kPositions, Position::rope) == std::string("rope"));
}

TEST_CASE("unset fields follow from the others", "[config]") {
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
  CHECK(resolve(with([](Config& c) { c.channels = 100, c.activation = Activation::swiglu; })).hidden == 288);
  CHECK_FALSE(*c.norm_bias);
  CHECK_FALSE(*c.final_norm);
  CHECK(*c.skip_scale == Approx(1.8612).epsilon(1e-4));  // (2·6)^¼ and (8·6)^-¼: DeepNet's decoder
  CHECK(*c.init_gain == Approx(.3799).epsilon(1e-4));
  CHECK_FALSE(*c.residual_gain);
  CHECK_FALSE(*resolve(with([](Config& c) { c.bias = false; })).norm_bias);

  const Config again = resolve(c);
  CHECK(again.hidden == c.hidden);
  CHECK(again.skip_scale == c.skip_scale);
}

TEST_CASE("the initialization can be chosen independently of the placement", "[config]") {
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
  CHECK(deviation(with([](Config& c) { c.init = InitChoice::xavier, c.init_gain = 3; }), Role::embedding) == .02f);
  CHECK(deviation(with([](Config& c) { c.placement = "post", c.init_gain = 3; }), Role::router) == .02f);
  CHECK(deviation(with([](Config& c) { c.placement = "post", c.init_gain = 3; }), Role::norm_gate) == .02f);
}

TEST_CASE("options that a norm does not have are refused with the reason", "[config]") {
  CHECK(contains(refusal([](Config& c) { c.norm = NormKind::scalenorm, c.norm_unit_offset = true; }),
             "one gain starts at sqrt(channels)"));
  for (const NormKind kind : {NormKind::batchnorm, NormKind::dyt, NormKind::derf, NormKind::gatednorm})
    CHECK(contains(refusal([&](Config& c) { c.norm = kind, c.norm_unit_offset = true; }), "layernorm or rmsnorm only"));
  CHECK(contains(refusal([](Config& c) { c.norm = NormKind::scalenorm, c.norm_bias = true; }),
             "--norm-bias does not go with"));
  CHECK(refusal([](Config& c) { c.norm = NormKind::scalenorm, c.norm_bias = false; }) == "");
  for (const NormKind kind :
       {NormKind::scalenorm, NormKind::batchnorm, NormKind::dyt, NormKind::derf, NormKind::gatednorm})
    CHECK(contains(refusal([&](Config& c) { c.norm = kind, c.norm_gain = false; }), "layernorm or rmsnorm only"));
  CHECK(contains(refusal([](Config& c) { c.norm = NormKind::gatednorm, c.qk_norm = QkNormKind::head; }),
                 "--qk-norm goes with --norm layernorm or rmsnorm only"));
  CHECK(contains(refusal([](Config& c) { c.norm_gain = false, c.norm_unit_offset = true; }),
                 "--norm-unit-offset goes with --norm-gain only"));
  CHECK(refusal([](Config& c) { c.norm_gain = false; }) == "");
  const auto offset_with = [](const char* norm) {
    return refusal([&](Config& c) { c.norm_unit_offset = true, c.norm_sites[4] = norm_named("norm-final", norm); });
  };
  CHECK(contains(offset_with("dyt"), "layernorm or rmsnorm only, at every site"));
  CHECK(offset_with("simple-rmsnorm") == "");
  CHECK(offset_with("rmsnorm") == "");
  CHECK(refusal([](Config& c) { c.norm = NormKind::rmsnorm, c.norm_unit_offset = true, c.norm_bias = true; }) == "");
}

TEST_CASE("impossible values are refused and the option is named", "[config]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(contains(refusal([](Config& c) { c.n_head = 3; }), "--heads 3 does not divide --channels 128"));
  CHECK(refusal([](Config& c) { c.n_head = 3, c.head_dim = 40; }) == "");
  CHECK(contains(refusal([](Config& c) { c.kv_heads = 3; }), "--kv-heads 3 does not divide --heads 4"));
  CHECK(contains(refusal([](Config& c) { c.kv_heads = -1; }), "--kv-heads"));
  CHECK(contains(refusal([](Config& c) { c.head_dim = 7, c.position = Position::rope; }), "even head dimension"));
  CHECK(contains(refusal([](Config& c) { c.n_layer = 0; }), "--layers is 0: must be 1 to"));
  CHECK(contains(refusal([](Config& c) { c.vocab_size = 0; }), "--vocab-size"));
  CHECK(contains(refusal([](Config& c) { c.context = -5; }), "--context"));
  CHECK(contains(refusal([](Config& c) { c.dropout = 1; }), "--dropout"));
  CHECK(contains(refusal([&](Config& c) { c.dropout = nan; }), "--dropout"));
  CHECK(contains(refusal([&](Config& c) { c.norm_eps = nan; }), "--norm-eps"));
  CHECK(contains(refusal([](Config& c) { c.skip_scale = -1; }), "--skip-scale"));
  CHECK(contains(refusal([&](Config& c) { c.mix_fraction = double(nan); }), "--mix-fraction"));
  CHECK(contains(refusal([](Config& c) { c.mix_fraction = 1.5; }), "--mix-fraction"));
  CHECK(contains(refusal([](Config& c) { c.layer_scale_init = -1; }), "--layer-scale-init"));
  CHECK(contains(refusal([](Config& c) { c.dyt_alpha = -1; }), "--dyt-alpha"));
  CHECK(contains(refusal([](Config& c) { c.gated_norm_rank = 0; }), "--gated-norm-rank is 0: must be 1 to"));
  CHECK(contains(refusal([&](Config& c) { c.init_gain = double(nan); }), "--init-gain"));
  CHECK(contains(refusal([](Config& c) { c.placement = "hyper", c.stream_mix = true; }), "one residual stream only"));
  CHECK(contains(refusal([](Config& c) { c.placement = "attnres", c.stream_mix = true; }), "one residual stream only"));
  CHECK(contains(refusal([](Config& c) { c.placement = "attnres", c.block = BlockForm::parallel; }), "one stream"));
  CHECK(contains(refusal([](Config& c) { c.residual_block = 0; }), "--residual-block is 0: must be 1 to"));
  const auto normed = [](void (*change)(Config&)) {
    return refusal([&](Config& c) { c.placement = "attnres-normed", change(c); });
  };
  CHECK(contains(normed([](Config& c) { c.zero_init = true; }), "--zero-init does not go with"));
  CHECK(contains(normed([](Config& c) { c.branch_scale = .5; }), "which undoes --branch-scale"));
  CHECK(contains(normed([](Config& c) { c.branch_warmup = BranchWarmup::prores, c.branch_warmup_steps = 2; }),
                 "and --branch-warmup: leave them out"));
  CHECK(normed([](Config& c) { c.branch_scale = 1; }) == "");
  CHECK(contains(refusal([](Config& c) { c.lora_rank = 2, c.lora_on = ""; }), "--lora-on names no matrix"));
  CHECK(contains(refusal([](Config& c) { c.lora_rank = 2, c.lora_on = "gate"; }), "--lora-on names 'gate', which is"));
}

TEST_CASE("an encoder and a decoder have the constants of their depths", "[config]") {
  const auto pair = [](const std::string& placement, void (*change)(Config&) = [](Config&) {}) {
    Config c;
    c.placement = placement, c.objective = Objective::pairs, c.n_layer = 6, c.encoder_layers = 4, c.vocab_size = 11;
    change(c);
    return resolve(c);
  };
  const Config deepnorm = pair("deepnorm"), read = encoder_of(deepnorm);
  CHECK(*deepnorm.skip_scale == Approx(std::pow(18, .25)));  // (3·6)^¼, (12·6)^-¼
  CHECK(*deepnorm.init_gain == Approx(std::pow(72, -.25)));
  CHECK(*read.skip_scale == Approx(.81 * std::pow(256 * 6, 1. / 16)));  // 4⁴·6
  CHECK(*read.init_gain == Approx(.87 * std::pow(256 * 6, -1. / 16)));
  CHECK(read.n_layer == 4);
  CHECK_FALSE(read.causal());
  CHECK_FALSE(read.crosses());

  const Config magneto = pair("sub-ln");
  const auto deviation = [](const Config& c, const char* branch) {
    return weight_start(c, Role::v, 30, 70, branch).deviation;
  };
  CHECK(deviation(magneto, "attention") == Approx(std::sqrt(.02 * std::log(18))));
  CHECK(deviation(magneto, "cross") == Approx(std::sqrt(.02)));  // as in the authors' code
  CHECK(deviation(encoder_of(magneto), "attention") == Approx(std::sqrt(.02 * std::log(18) * std::log(8) / 3)));
  CHECK_FALSE(placement_at(magneto, 0, "cross").norm_inner);

  const Config pre = pair("pre");
  CHECK(weight_start(pre, Role::o, 30, 70).deviation == Approx(.02 / std::sqrt(18)));  // three branches in a block
  CHECK(weight_start(encoder_of(pre), Role::o, 30, 70).deviation == Approx(.02 / std::sqrt(8)));

  // What is open follows the encoder's own placement and norm; what is given holds for both.
  const Config mixed = encoder_of(pair("deepnorm", [](Config& c) {
    c.encoder_placement = "pre-ln", c.encoder_norm = NormKind::rmsnorm, c.encoder_attention = Attending::causal;
  }));
  CHECK(mixed.causal());
  CHECK_FALSE(encoder_of(pair("deepnorm")).causal());
  CHECK(mixed.placement == "pre");
  CHECK(mixed.norm == NormKind::rmsnorm);
  CHECK(*mixed.skip_scale == 1);
  CHECK(*mixed.final_norm);
  CHECK_FALSE(*mixed.norm_bias);
  CHECK(*encoder_of(pair("deepnorm", [](Config& c) { c.skip_scale = 3; })).skip_scale == 3);
  const auto kind_in_encoder = [&](std::optional<NormKind> norm) {
    Config c = pair("pre");
    c.norm_sites[0] = NormChoice{NormKind::dyt}, c.encoder_norm = norm;
    return kind_at(encoder_of(resolve(c)), "attention.norm_in");
  };
  CHECK(kind_in_encoder({}) == NormKind::dyt);
  CHECK(kind_in_encoder(NormKind::rmsnorm) == NormKind::rmsnorm);
  CHECK(*encoder_of(resolve(pair("deepnorm"))).skip_scale == *read.skip_scale);

  for (const char* one_stack : {"keel", "glm-deepnorm", "attnres", "attnres-normed"}) {
    CHECK(contains(message_of<ConfigError>([&] { pair(one_stack); }), "no constants for a decoder"));
    Config c = pair("pre");
    c.encoder_placement = one_stack;
    CHECK(contains(message_of<ConfigError>([&] { resolve(c); }), "no constants for an encoder"));
  }
}

TEST_CASE("an encoder and an objective that it does not serve are refused", "[config]") {
  const auto refused = [](void (*change)(Config&)) {
    Config c;
    c.objective = Objective::pairs, c.encoder_layers = 2, c.vocab_size = 11;
    change(c);
    return message_of<ConfigError>([&] { resolve(c); });
  };
  CHECK(contains(refused([](Config& c) { c.objective = Objective::lm; }), "encoder-layers"));
  CHECK(contains(refused([](Config& c) { c.encoder_layers = 0; }), "encoder-layers"));
  CHECK(contains(refused([](Config& c) { c.attention = Attending::bidirectional; }), "shows a decoder the tokens"));
  CHECK(contains(refused([](Config& c) { c.block = BlockForm::parallel; }), "has no place for cross attention"));
}

TEST_CASE("attention follows the objective, and may not show the token that is predicted", "[config]") {
  Config c;
  c.vocab_size = 11;
  CHECK(resolve(c).causal());
  c.attention = Attending::bidirectional;
  CHECK(contains(message_of<ConfigError>([&] { resolve(c); }), "choose objective mlm, or attention causal"));
  c.objective = Objective::mlm;
  CHECK_FALSE(resolve(c).causal());
  c.attention = Attending::objective;
  CHECK_FALSE(resolve(c).causal());
  c.attention = Attending::causal;
  CHECK(resolve(c).causal());
  c.head_transform = true, c.activation = Activation::swiglu;
  CHECK(contains(message_of<ConfigError>([&] { resolve(c); }), "activation without a gate"));
}
