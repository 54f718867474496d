// The gradients, moments and weights of the textbook's training step against the fast one's.

#include "check.hpp"
#include "layers/model/initialize.hpp"
#include "layers/textbook/step.hpp"
#include "layers/training/run_optimizer.hpp"

namespace {

constexpr double kTolerance = 1e-5;  // rounding grows from step to step

// The state after three steps of two micro-batches.
struct Trained : TrainingState {
  std::vector<double> losses, norms;

  Trained(const Config& config, StepFunctions functions, const char* kind, double lr)
      : TrainingState(Model(config), 2, config.context, (functions.optimizers = run_optimizer(kind).rows, functions)) {
    initialize(model, 1);
    const int V = model.config.vocab_size;
    for (int step = 0; step < 3; ++step) {
      const std::vector<int> inputs = random_ints(2 * B * T, 4 * step, V),
                             wanted = random_ints(2 * B * T, 4 * step + 2, V);
      const StepResult result = training_step(*this, micro_batches({inputs.data(), wanted.data(), 2 * B, T}, 2),
                                              {{.eps = 1e-3f}, .5, 3}, step, lr);
      losses.push_back(result.loss), norms.push_back(result.grad_norm);
    }
  }
};

}  // namespace

TEST_CASE("the textbook's training step agrees with the fast one", "[textbook][optimizer][model]") {
  Config config;
  config.n_layer = 2, config.n_head = 2, config.channels = 12, config.context = 7, config.vocab_size = 13;
  config.norm = NormKind::batchnorm, config.position = Position::rope, config.dropout = .2f;
  config.z_loss = .01f, config.label_smoothing = .1f, config.logit_scale = 1.5f, config.logit_cap = 9;
  const RunOptimizer by = GENERATE(from_range(run_optimizers()));
  INFO(by.name);
  const double lr = by.name == std::string_view("adamw") ? .05 : by.name == std::string_view("lion") ? .003 : .01;
  const Trained fast(config, kFastStep, by.name, lr), book(config, kTextbookStep, by.name, lr);
  for (size_t i = 0; i < fast.losses.size(); ++i) {
    CHECK(book.norms[i] > .5);  // every step is clipped
    check_error("textbook step/loss", std::fabs(book.losses[i] / fast.losses[i] - 1), kTolerance);
    check_error("textbook step/norm", std::fabs(book.norms[i] / fast.norms[i] - 1), kTolerance);
  }
  for (const TensorSpec& spec : fast.model.table) {
    const auto of = [&](const float* x) { return std::span<const float>(x + spec.offset, spec.size()); };
    const auto compare = [&](const char* what, const float* got, const float* want) {
      check_close("textbook step/" + spec.name + "/" + what, of(got), widen(of(want)), kTolerance);
    };
    const bool only_rounding = spec.name.ends_with(".k.bias");  // its gradient is only rounding
    // Adafactor's step is as large for a small gradient as for a large one.
    if (!only_rounding || by.name != std::string_view("adafactor"))
      compare("weights", book.model.weights.get(), fast.model.weights.get());
    if (only_rounding) continue;
    compare("gradient", book.model.gradients.get(), fast.model.gradients.get());
    for (const TensorSpec& slot : state_table(spec)) {
      const auto state = [&](const Trained& s) {
        return std::span<const float>(&s.optimizer_state[slot.offset], slot.size());
      };
      check_close("textbook step/" + slot.name, state(book), widen(state(fast)), kTolerance);
    }
  }
}

TEST_CASE("fast and textbook steps name the tensor if the loss is not finite", "[textbook][model]") {
  Config config;
  config.n_layer = 1, config.n_head = 1, config.channels = 4, config.context = 3, config.vocab_size = 5;
  const int tokens[] = {1, 2, 3}, targets[] = {2, 3, 4};
  for (const StepFunctions& by : {kFastStep, kTextbookStep}) {
    TrainingState state(Model(config), 1, 3, by);
    initialize(state.model, 1);
    state.model.p.blocks[0].attention.norm_in.gain[0] = std::numeric_limits<float>::infinity();
    try {
      training_step(state, micro_batches({tokens, targets, 1, 3}, 1), {}, 6, 1e-3);
      FAIL("it took the step");
    } catch (const Diverged& diverged) {
      CHECK(diverged.step == 7);
      CHECK(diverged.what == "loss");
      CHECK(diverged.tensor.starts_with("block.0."));
    }
  }
}
