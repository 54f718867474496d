// What the headers of layers/moe promise besides their numbers, which test_textbook_model.cpp, PyTorch's references and
// test_huggingface.cpp check. Tests with forms.hpp check threads, ranks and recomputation.

#include "layers/moe/moe.hpp"

#include "check.hpp"
#include "layers/kernels/buffer.hpp"
#include "layers/model/initialize.hpp"
#include "layers/model/model.hpp"
#include "layers/model/size.hpp"
#include "layers/training/run_optimizer.hpp"
#include "layers/training/step.hpp"
#include "message.hpp"

namespace {

Config small(int experts = 4, int k = 2) {
  Config c;
  c.n_layer = 2, c.n_head = 2, c.channels = 8, c.hidden = 12, c.context = 16, c.vocab_size = 13;
  c.experts = experts, c.experts_per_token = k;
  return c;
}

// A router that reads its logits from u: E channels and the identity for weights.
struct Routed {
  Config config;
  int N, E, k;
  std::vector<float> scores, lse, chosen, weights, identity, bias;
  RouterSaved saved;

  Routed(const std::vector<float>& logits, int experts, int per_token, bool renormalize, std::vector<float> b = {})
      : config(small(experts, per_token)), N(int(logits.size()) / experts), E(experts), k(per_token),
        scores(N * E), lse(N), chosen(N * k), weights(N * k), identity(E * E), bias(std::move(b)) {
    config.channels = E, config.router_renormalize = renormalize;
    for (int i = 0; i < E; ++i) identity[i * E + i] = 1;
    saved = {scores.data(), lse.data(), chosen.data(), weights.data()};
    router_forward(saved, logits.data(), parameters(), config, N);
  }
  Router parameters() {
    Router p;
    p.linear.weight = identity.data(), p.bias = bias.empty() ? nullptr : bias.data();
    return p;
  }
};

}  // namespace

TEST_CASE("the router chooses the most likely experts, of equals the first", "[moe]") {
  const float ln2 = std::log(2.f), ln4 = std::log(4.f);
  Routed r({0, ln2, ln4, 0, 0, 0, 0, 0, -200, 0, 200, 0}, 4, 2, true);
  CHECK(r.chosen == std::vector<float>{2, 1, 0, 1, 2, 0});
  CHECK(r.weights[0] == Approx(2 / 3.));
  CHECK(r.weights[1] == Approx(1 / 3.));
  CHECK(r.weights[2] == .5f);
  CHECK(r.weights[4] == 1);
  CHECK(r.weights[5] == 0);
  CHECK(r.scores[0] == Approx(1 / 8.));
  CHECK(r.lse[0] == Approx(std::log(8.)));
  CHECK(r.lse[2] == 200);
  CHECK(router_load(r.saved, r.config, r.N) == std::vector<int>{2, 2, 2, 0});
  const Routed plain({0, ln2, ln4, 0}, 4, 2, false);
  CHECK(plain.weights[0] == Approx(.5));
  CHECK(plain.weights[1] == Approx(.25));
}

TEST_CASE("the selection bias moves the choice and not the weights", "[moe]") {
  const float ln2 = std::log(2.f), ln4 = std::log(4.f);
  const Routed r({0, ln2, ln4, 0}, 4, 1, false, {0, 0, 0, 1});
  CHECK(r.chosen[0] == 3);
  CHECK(r.weights[0] == Approx(.125));
}

TEST_CASE("a router of NaN chooses different experts that exist", "[moe]") {
  const Routed r(std::vector<float>(4, NAN), 4, 3, true);
  CHECK(r.chosen == std::vector<float>{0, 1, 2});
}

TEST_CASE("the selection bias rises for experts below the mean load, and falls for those above", "[moe]") {
  std::vector<float> bias = {0, .5f, 0, 1};
  const double load[] = {3, 5, 4, 4};
  update_router_bias(bias.data(), load, 4, .25f);
  CHECK(bias == std::vector<float>{.25f, .25f, 0, 1});
}

TEST_CASE("the losses of the router are in the gradient and not in the loss", "[moe]") {
  const std::vector<int> tokens = random_ints(32, 1, 13), targets = random_ints(32, 2, 13);
  const auto pass = [&](float balance, float z) {
    Config config = small();
    config.router_loss = balance, config.router_z_loss = z;
    Model model(config);
    initialize(model, 1);
    const Activations a = allocate_activations(model.config, 2, 16, true);
    const double loss = model_loss_and_gradients(model, a, {tokens.data(), targets.data(), 2, 16}, 1, {});
    return std::pair{loss, gradient_norm(model.gradients.get(), model.table)};
  };
  const auto [loss, norm] = pass(0, 0);
  for (const auto& [balance, z] : {std::pair{1.f, 0.f}, {0.f, 1.f}}) {
    CHECK(pass(balance, z).first == loss);
    CHECK(pass(balance, z).second != norm);
  }
}

// The gradient of an expert without tokens is 0, and it has no rows that could be NaN.
TEST_CASE("an expert without tokens is idle", "[moe]") {
  Config config = small(3, 1);
  config.router_loss = 0, config.router_bias = .1f;
  Model model(config);
  initialize(model, 1);
  for (const TensorSpec& spec : model.table)
    if (is_router_bias(spec)) model.weights[spec.offset + 1] = -1;
  const std::vector<int> tokens = random_ints(32, 1, 13), targets = random_ints(32, 2, 13);
  const Activations a = allocate_activations(model.config, 2, 16, true);
  model_loss_and_gradients(model, a, {tokens.data(), targets.data(), 2, 16}, 1, {});
  for (const TensorSpec& spec : model.table) {
    if (expert_of(spec) < 0) continue;
    INFO(spec.name);
    const double norm = norm_of(widen({model.gradients.get() + spec.gradient, spec.size()}));
    CHECK((norm == 0) == (expert_of(spec) == 1));
    CHECK(std::isfinite(norm));
  }
  for (int l = 0; l < 2; ++l) {
    CHECK(model.load[l * 3 + 1] == 0);
    CHECK(model.load[l * 3] + model.load[l * 3 + 2] == 32);
  }
}

TEST_CASE("the bias of each layer follows the load of the whole step", "[moe]") {
  Config config = small(4, 1);
  config.router_bias = .125f, config.recompute = Recompute::full;
  TrainingState state(Model(config), 2, 16);
  initialize(state.model, 1);
  const std::vector<int> tokens = random_ints(64, 1, 13), targets = random_ints(64, 2, 13);
  const auto biases = [&] {
    std::vector<float> all;
    for (const TensorSpec& spec : state.model.table)
      if (is_router_bias(spec))
        all.insert(all.end(), &state.model.weights[spec.offset], &state.model.weights[spec.offset] + 4);
    return all;
  };
  for (int step = 0; step < 2; ++step) {
    const std::vector<float> want = biases();
    training_step(state, micro_batches({tokens.data(), targets.data(), 4, 16}, 2), {}, step, 1e-3);
    const std::vector<float> got = biases();
    for (size_t i = 0; i < want.size(); ++i) {
      const double load = state.model.load[i];
      CHECK(got[i] == want[i] + (load < 16 ? .125f : load > 16 ? -.125f : 0));
    }
    CHECK(got != want);
    CHECK(state.model.load[0] + state.model.load[1] + state.model.load[2] + state.model.load[3] == 64);
  }
}

TEST_CASE("Muon orthogonalizes the matrix of each expert, and AdamW updates the router", "[moe][optimizer]") {
  std::vector<TensorSpec> table = Model(small()).table;
  assign_optimizers(table, run_optimizer("muon").rows);
  int experts = 0;
  for (const TensorSpec& spec : table) {
    if (spec.shape.size() < 2 || spec.layer == kOutside) continue;
    INFO(spec.name);
    CHECK((spec.optimizer == &kAdamW) == (spec.role == Role::router));
    experts += expert_of(spec) >= 0;
  }
  CHECK(experts == 2 * 4 * 2);
}

TEST_CASE("parameters and operations of a mixture of experts, by hand", "[moe][cost]") {
  Config c = small(5, 2);  // L 2, C 8, F 12
  c.shared_experts = 1, c.bias = false, c.activation = Activation::swiglu;
  Config dense = c;
  dense.experts = dense.shared_experts = 0;
  c = resolve(c), dense = resolve(dense);
  Layout layout;
  declare_model(layout, c);
  const size_t expert = 3 * 8 * 12, router = 5 * 8;
  CHECK(count_parameters(c) == count_parameters(dense) + 2 * (5 * expert + router));
  CHECK(count_active_parameters(c, layout.table()) == count_parameters(dense) + 2 * (2 * expert + router));
  CHECK(flops_per_token(c) == flops_per_token(dense) + 6 * 2 * double(2 * expert + router));
}

TEST_CASE("settings of experts that cannot be are refused in one line", "[moe]") {
  const auto refusal = [](void (*change)(Config&)) {
    Config c = small();
    change(c);
    return message_of<std::invalid_argument>([&] { resolve(c); });
  };
  CHECK(refusal([](Config& c) { c.experts_per_token = 5; }) ==
        "experts-per-token 5 is more than experts 4: choose fewer");
  CHECK(refusal([](Config& c) { c.experts = 0, c.shared_experts = 1; }) ==
        "shared-experts needs experts, the number of those that tokens choose from: set it");
  CHECK(refusal([](Config& c) { c.lora_rank = 2, c.lora_on = "q,up"; }) ==
        "lora-on names 'up', which is many matrices in a mixture of experts: choose from q,k,v,o");
  CHECK(refusal([](Config& c) { c.lora_rank = 2, c.lora_on = "q,v"; }) == "");
}
