// --branch-warmup: the schedules, and what happens to a model whose factors are below 1. test_model.cpp (PyTorch) and
// test_textbook_model.cpp check forward and backward.

#include "layers/training/branch_factors.hpp"

#include <cmath>

#include "forms.hpp"
#include "layers/model/initialize.hpp"
#include "layers/training/step.hpp"
#include "random_model.hpp"
#include "small_run.hpp"

namespace {

Config growing(BranchWarmup kind, int steps, const std::string& placement = "pre") {
  Config c;
  c.placement = placement, c.branch_warmup = kind, c.branch_warmup_steps = steps;
  c.n_layer = 3, c.n_head = 2, c.channels = 16, c.context = 8, c.vocab_size = 23;
  return resolve(c);
}

std::vector<float> factors_of(const Model& model) {
  std::vector<float> factors;
  for (const TensorSpec& spec : model.table)
    if (spec.name.ends_with(".branch_warmup")) factors.push_back(model.weights[spec.offset]);
  return factors;
}

struct Pass {
  double loss;
  std::vector<float> gradients;
};
Pass pass(Model& model) {
  constexpr int B = 2, T = 8;
  const std::vector<int> tokens = random_ints(B * T, 1, 23), targets = random_ints(B * T, 2, 23);
  const Activations a = allocate_activations(model.config, B, T, true);
  std::fill_n(model.gradients.get(), model.gradient_floats, 0.f);
  Pass p{model_loss_and_gradients(model, a, {tokens.data(), targets.data(), B, T}, 1.f / (B * T), {}), {}};
  for (const TensorSpec& spec : model.table)
    if (spec.trained)
      p.gradients.insert(p.gradients.end(), &model.gradients[spec.gradient],
                         &model.gradients[spec.gradient] + spec.size());
  return p;
}

}  // namespace

TEST_CASE("the factors of a warm-up grow with the updates, under ProRes more slowly in later blocks", "[warmup]") {
  const Config prores = growing(BranchWarmup::prores, 10), branchnorm = growing(BranchWarmup::branchnorm, 10);
  for (const auto& [layer, updates, of_prores, of_branchnorm] :
       {std::tuple{0, 0, 0., 0.}, {0, 1, .1, .1}, {0, 9, .9, .9}, {0, 10, 1., 1.}, {0, 11, 1., 1.}, {1, 10, .5, 1.},
        {2, 10, 1 / 3., 1.}, {2, 29, 29 / 30., 1.}, {2, 30, 1., 1.}}) {
    CHECK(branch_warmup(prores, layer, updates) == static_cast<float>(of_prores));
    CHECK(branch_warmup(branchnorm, layer, updates) == static_cast<float>(of_branchnorm));
  }
  Config deep = growing(BranchWarmup::prores, 10);
  deep.parametrization = Parametrization::completep, deep.base_channels = 16, deep.base_layers = 3, deep.n_layer = 6;
  CHECK(branch_warmup(resolve(deep), 5, 10) == static_cast<float>(1 / 3.));  // as the last of the base model
}

TEST_CASE("a factor on the branches is a branch scale, bit for bit", "[warmup]") {
  for (const Form& form : forms()) {
    const Placement& placement = placement_row(form.placement);
    const bool normed = placement.streams == StreamRule::attnres_normed || placement.streams == StreamRule::sphere;
    const bool is_refused = placement.bypass || normed;
    if (form.encoder_layers > 0 || is_refused) continue;
    INFO(form.name);
    Config c = growing(BranchWarmup::branchnorm, 10);
    form.apply(c);
    Model grows(c);
    c.branch_warmup = BranchWarmup::none, c.branch_warmup_steps = 0, c.branch_scale = .3;
    Model scaled(c);
    for (Model* model : {&grows, &scaled}) initialize(*model, 7), set_learned_gains(*model);
    for (const TensorSpec& spec : scaled.table)  // Admin's gains depend on the branch scale
      if (spec.name.ends_with(".skip.gain"))
        std::copy_n(tensor_of(grows, spec.name), spec.size(), scaled.weights.get() + spec.offset);
    set_branch_factors(grows, 3);
    const Pass a = pass(grows), b = pass(scaled);
    CHECK(a.loss == b.loss);
    CHECK(same_bits(a.gradients, b.gradients));
    set_branch_factors(grows, 10);
    CHECK(branch_warmup_ended(grows));
    Model plain = without_branch_warmup(grows);
    allocate_gradients(plain);
    CHECK(plain.config.branch_warmup == BranchWarmup::none);
    CHECK(factors_of(plain).empty());
    const Pass end = pass(grows), without = pass(plain);
    CHECK(end.loss == without.loss);
    CHECK(same_bits(end.gradients, without.gradients));
  }
}

TEST_CASE("each stack of an encoder and a decoder counts its own blocks", "[warmup]") {
  Config c = growing(BranchWarmup::prores, 2);
  c.objective = Objective::pairs, c.encoder_layers = 2;
  Model model(c);
  initialize(model, 7);
  CHECK(factors_of(model) == std::vector<float>(5));
  set_branch_factors(model, 3);
  CHECK(factors_of(model) == std::vector<float>{1, .75f, 1, .75f, .5f});
  CHECK_FALSE(branch_warmup_ended(model));
}

TEST_CASE("a step computes with the factors of its number, and leaves those of the next", "[warmup]") {
  const int B = 2, T = 8;
  TrainingState state(Model(growing(BranchWarmup::prores, 2)), B, T);
  initialize(state.model, 7);
  const std::vector<int> tokens = random_ints(B * T, 1, 23), targets = random_ints(B * T, 2, 23);
  const MicroBatches batches = micro_batches({tokens.data(), targets.data(), B, T}, 1);
  const double first = training_step(state, batches, {}, 0, 1e-3).loss;
  CHECK(factors_of(state.model) == std::vector<float>{.5f, .25f, static_cast<float>(1 / 6.)});
  set_branch_factors(state.model, 6);
  initialize(state.model, 7);
  CHECK(training_step(state, batches, {}, 3, 1e-3).loss != first);
  CHECK(factors_of(state.model) == std::vector<float>{1, 1, static_cast<float>(4 / 6.)});
}

TEST_CASE("settings of a warm-up that make no sense are refused", "[warmup][config]") {
  CHECK(contains(message_of<std::invalid_argument>([] { growing(BranchWarmup::prores, 0); }),
                 "branch-warmup needs branch-warmup-steps"));
  CHECK(contains(message_of<std::invalid_argument>([] { growing(BranchWarmup::branchnorm, 4, "b2t"); }),
                 "branch-warmup has no rule for the second skip path of placement b2t"));
}

TEST_CASE("a model is exported without a warm-up that has ended, and refused before", "[warmup][program]") {
  const Corpus f;
  const std::string grows = " --branch-warmup prores --branch-warmup-steps 2";
  REQUIRE(f.run("train --data stories.txt --steps 3 --out r" + grows + kSmall).status == 0);
  for (const std::string format : {"hf", "gguf", "llama2c", "llmc"})
    check_refused(f, "export r --out x --to " + format,
                  "r is at step 3, where factors of --branch-warmup are below 1, which no other program knows: train "
                  "it on with --resume");
  CHECK(f.run("sample r --prompt Lily --length 9").status == 0);
  check_refused(f, "train --data stories.txt --init-from r --steps 2 --out again",
                "r is at step 3, where factors of --branch-warmup are below 1, and they would start at 0 again: train");
  REQUIRE(f.run("train --out r --resume --steps 5 --quiet").status == 0);
  REQUIRE(f.run("export r --out hf --to hf").status == 0);
  CHECK_FALSE(contains(f.read("hf/config.json"), "branch_warmup"));
  const Outcome ours = f.run("sample r --prompt Lily --length 20 --seed 3"),
                theirs = f.run("sample hf --prompt Lily --length 20 --seed 3");
  CHECK(ours.status == 0);
  CHECK(ours.out == theirs.out);
  for (const std::string from : {"r", "hf"})
    REQUIRE(f.run("train --data stories.txt --init-from " + from + " --steps 2 --out again-" + from).status == 0);
  CHECK(same_bits(last_weights(f, "again-r"), last_weights(f, "again-hf")));
  check_refused(f, "init-report --data stories.txt --widths 16,32" + grows,
                "--widths and --depths compare the first steps, in which --branch-warmup takes the branches out");
  const Outcome unused = f.run("train --data stories.txt --steps 1 --out s --layers 1 --channels 8 --heads 1 "
                               "--context 16 --batch 2 --eval-every 0 --branch-warmup-steps 5");
  CHECK(contains(unused.out + unused.err, "--branch-warmup-steps has no effect without --branch-warmup"));
}
