// The whole model built from textbook layers: certified by complex step, and compared with the fast model. Unlike
// PyTorch's references it includes dropout. The textbook gets the fast model's masks, so the test shows that forward
// and backward apply them in the right places.

#include "forms.hpp"
#include "layers/config/norm_sites.hpp"
#include "layers/textbook/model.hpp"
#include "model_case.hpp"
#include "random_model.hpp"
#include "sources.hpp"
#include "textbook.hpp"
#include "wirings.hpp"

namespace {

constexpr double kTolerance = 1e-6;

// Compares the gradient with complex steps of the forward pass, which have no truncation error. One step moves all
// tensors at once in a random direction, each in proportion to 1/norm of its gradient, so that a small tensor counts as
// much as a large one. If it disagrees, a step of each tensor says which.
void certify_model(const Config& config, const std::string& name) {
  using Complex = std::complex<double>;
  constexpr double h = 1e-50, kCertified = 2e-13;
  Model model(config);
  randomize(model);
  const int B = 2, T = 4;
  const std::vector<int> tokens = random_ints(B * T, 1, 13), targets = random_ints(B * T, 2, 13);
  const Sources sources = random_sources(B, T, 5, 13);
  Batch batch{tokens.data(), targets.data(), B, T};
  if (model.config.crosses()) batch.encoder = sources.input();
  const Dropout dropout{.2f, 3, 4, 5};
  textbook::Model<double> book(model, B, T, dropout, true, batch.encoder);
  book.forward(batch);
  book.backward(batch, 1);
  textbook::Model<Complex> stepped(model, B, T, dropout, true, batch.encoder);
  const double all = norm_of(book.g.numbers);
  const std::vector<float> direction = random_floats(model.floats, 3);
  // Moves a tensor and returns the change of the loss that its gradient predicts.
  const auto move = [&](const TensorSpec& spec) {
    const std::span<const double> gradient = std::span(book.g.numbers).subspan(spec.offset, spec.size());
    const double scale = 1 / std::max(norm_of(gradient), 1e-3 * all);
    double change = 0;
    for (size_t i = 0; i < spec.size(); ++i) {
      stepped.p.numbers[spec.offset + i] += Complex(0, h * scale * direction[spec.offset + i]);
      change += scale * direction[spec.offset + i] * gradient[i];
    }
    return change;
  };
  const auto slope = [&] {
    const Complex loss = stepped.forward(batch);
    return (loss + stepped.router_losses()).imag() / h;
  };
  double predicted = 0;
  int moved = 0;
  for (const TensorSpec& spec : model.table) {
    if (!spec.trained) continue;
    predicted += move(spec);
    ++moved;
  }
  const double error = std::fabs(slope() - predicted) / std::sqrt(moved);
  check_error("complex step, model/" + name, error, kCertified);
  if (error <= kCertified) return;
  for (const TensorSpec& spec : model.table) {
    if (!spec.trained) continue;
    std::copy_n(model.weights.get(), stepped.p.numbers.size(), stepped.p.numbers.begin());
    const double want = move(spec);
    check_error("complex step, model/" + name + "/" + spec.name, std::fabs(slope() - want), kCertified);
  }
}

void compare_models(Config config, std::string name, float dropout_p) {
  config.dropout = config.lora_dropout = dropout_p;
  Model model(config);
  randomize(model);
  name = "model vs textbook/" + name + (dropout_p > 0 ? " dropout/" : "/");

  const double tolerance = model_tolerance(config);
  const int B = 3, T = 9;
  const Dropout dropout{dropout_p, 3, 4, 5};
  const std::vector<int> tokens = random_ints(B * T, 1, 13);
  std::vector<int> targets = random_ints(B * T, 2, 13);
  targets[4] = kIgnore;
  const Sources sources = random_sources(B, T, 8, 13);
  Batch batch{tokens.data(), targets.data(), B, T};
  if (model.config.crosses()) batch.encoder = sources.input();
  Activations activations = allocate_activations(model.config, B, T, true);
  textbook::Model<double> book(model, B, T, dropout, true, batch.encoder);
  const float scale = 1.f / (B * T - 1);
  const double want = book.forward(batch);
  book.backward(batch, scale);
  const Doubles &weights = book.p.numbers, &gradients = book.g.numbers;
  const double all = norm_of(gradients);
  const double loss = model_loss_and_gradients(model, activations, batch, scale, dropout);
  check_error(name + "loss", std::fabs(loss / want - 1), kTolerance);
  for (const TensorSpec& spec : model.table) {
    // Without RoPE, which cross attention never has, or a cap, a bias of all keys adds the same to all scores of a row,
    // so its gradient is only rounding.
    const bool rotated = config.position == Position::rope && spec.part.find("cross.") == spec.part.npos;
    const bool moved = rotated || config.attention_cap > 0;
    if (spec.name.ends_with(model.config.qk_norm == QkNormKind::none ? ".k.bias" : ".k_norm.bias") && !moved) continue;
    const std::span<const float> got{model.gradients.get() + spec.offset, spec.size()};
    const std::span<const double> expected{&gradients[spec.offset], spec.size()};
    if (!spec.trained) {
      CHECK(norm_of(widen(got)) == 0);
      check_close(name + spec.name, {model.weights.get() + spec.offset, spec.size()},
                  {&weights[spec.offset], spec.size()}, tolerance);
    } else if (config.norm == NormKind::batchnorm && norm_of(expected) < 1e-13 * all) {  // a bias before a norm
      check_error(name + "zero " + spec.name, norm_of(widen(got)) / all, kTolerance);
    } else {
      // A number that all rows and channels add to may nearly cancel.
      const bool single = spec.size() == 1 || (spec.role == Role::streams && spec.shape.size() == 1);
      // SiameseNorm's first branch reads two norms of one embedding. A BatchNorm of their sum hides the size of each
      // channel, and so what the gain does.
      const bool hidden =
          config.norm == NormKind::batchnorm && spec.name == "block.0.attention.streams.second_norm.gain";
      check_close(name + spec.name, got, expected, tolerance, single || hidden ? 100 * all : 0);
    }
  }
  if (dropout_p > 0) return;
  textbook::Model<double> evaluating(model, B, T, {}, false, batch.encoder);
  const double evaluated = evaluating.forward(batch);
  const bool by_batch = std::ranges::any_of(
      norms_in(model.config), [](const NormChoice& norm) { return norm.kind == NormKind::batchnorm; });
  CHECK((evaluated == want) == !by_batch);
  const double alone = by_batch ? 3 * kTolerance : kTolerance;  // 1.5e-6 measured with mHC and an encoder
  check_error(name + "loss alone", std::fabs(model_loss(model, activations, batch) / evaluated - 1), alone);

  // The first sequence again, in pieces, with keys and values from the cache. Under longrope these are those of as many
  // tokens, and not of the whole sequence.
  if (config.rope_scaling == RopeScaling::longrope || !model.config.causal()) return;
  const Activations without_backward = allocate_activations(model.config, 1, T, false);
  ModelCache cache(model.config, model.config.context);
  if (model.config.crosses()) read_sources(cache, model, without_backward, {sources.row(0)});
  for (const int piece : {1, 4, 1, 3}) {
    const float* logits = model_logits(model, without_backward, cache, tokens.data() + cache.past, piece);
    const size_t row = size_t(cache.past - 1) * config.vocab_size;
    check_close(name + "cached logits", {logits, size_t(config.vocab_size)},
                {&evaluating.head.logits[row], size_t(config.vocab_size)}, tolerance);
  }
  CHECK(cache.past == T);
}

}  // namespace

TEST_CASE("the textbook's model is certified", "[model][textbook]") {
  for (const Form& form : forms())
    for (const auto& [kind, name] : kNormKinds)
      if (form.takes(kind)) certify_model(small_config(form, kind, true), title_of(form, kind, true));
  for (const auto& [name, change] : wirings()) certify_model(wired(change), name);
}

TEST_CASE("the model agrees with the textbook for every placement, with and without dropout", "[model][textbook]") {
  for (const Form& form : forms())
    for (const auto& [kind, name] : kNormKinds)
      for (const bool llama : {false, true})
        for (const float dropout : {0.f, .2f})
          if (form.takes(kind)) compare_models(small_config(form, kind, llama), title_of(form, kind, llama), dropout);
}

TEST_CASE("encoders and decoders are certified and agree with the textbook's", "[model][textbook][cross]") {
  for (const Form& form : forms_with_encoder())
    for (const NormKind kind : {NormKind::layernorm, NormKind::batchnorm})
      for (const bool llama : {false, true}) {
        const bool normed = form.placement != "none" && form.placement != "rezero";
        if (!form.takes(kind) || (llama && !normed)) continue;
        const Config config = small_config(form, kind, llama);
        certify_model(config, title_of(form, kind, llama));
        for (const float dropout : {0.f, .2f}) compare_models(config, title_of(form, kind, llama), dropout);
      }
  for (const auto& [name, change] : wirings()) {
    Config config = wired(change);
    if (config.block != BlockForm::sequential || !resolve(config).causal()) continue;
    if (placement_row(config.placement).one_stack || config.qk_norm == QkNormKind::unit) continue;
    config.objective = Objective::pairs, config.encoder_layers = 2;
    certify_model(config, name + " with encoder");
    for (const float dropout : {0.f, .2f}) compare_models(config, name + " with encoder", dropout);
  }
}

TEST_CASE("the model agrees with the textbook in the wiring of published models", "[model][textbook]") {
  for (const auto& [name, change] : wirings())
    for (const float dropout : {0.f, .2f}) compare_models(wired(change), name, dropout);
}

TEST_CASE("mixtures of experts are certified and agree with the textbook's", "[model][textbook][moe]") {
  for (const Form& form : forms())
    for (const NormKind kind : {NormKind::layernorm, NormKind::batchnorm})
      for (const bool llama : {false, true}) {
        // Without any norm, SwiGLU multiplies the stream by itself, and rounding errors grow with it.
        const bool normed = form.placement != "none" && form.placement != "rezero";
        if (!form.takes(kind) || (llama && !normed)) continue;
        Config config = small_config(form, kind, llama);
        config.experts = 4, config.experts_per_token = llama ? 2 : 1, config.shared_experts = llama ? 1 : 0;
        config.router_renormalize = llama, config.hidden = 9;
        config.router_loss = .3f, config.router_z_loss = .2f, config.router_bias = llama ? .1f : 0;
        const std::string name = title_of(form, kind, llama) + " moe";
        certify_model(config, name);
        for (const float dropout : {0.f, .2f}) compare_models(config, name, dropout);
      }
}

TEST_CASE("low-rank adapters are certified and agree with the textbook's", "[model][textbook][lora]") {
  for (const char* shared : {"", "qkv", "qkv,gate_up"})
    for (const char* on : {"q,k,v,o,up,down", "q,v", "k,up"})
      for (const bool llama : {false, true}) {
        Config config = small_config(forms()[0], NormKind::layernorm, llama);
        config.lora_rank = 3, config.lora_alpha = 1, config.lora_dropout = .2f;
        config.lora_on = on, config.lora_shared = shared;
        const std::string name = std::string("lora ") + on + " " + shared + (llama ? " llama" : " gpt2");
        certify_model(config, name);
        for (const float dropout : {0.f, .2f}) compare_models(config, name, dropout);
      }
}

TEST_CASE("the textbook's models agree with PyTorch", "[model][textbook]") {
  constexpr double kLoss = 2e-8, kGradient = 4e-7;  // a Config's constants, such as norm_eps, are floats
  for (const ModelName& of : model_names()) {
    const ModelCase c(of.name, of.folder);
    const Batch batch = c.batch(0);
    textbook::Model<double> book(c.model, c.B, c.T, {}, true, batch.encoder);
    const double loss = book.forward(batch) / c.counted(0), want = c.expected["loss"];
    check_error("textbook loss/" + of.title(), std::fabs(loss / want - 1), kLoss);
    book.backward(batch, 1. / c.counted(0), 1. / (c.B * c.T));
    const Doubles grads = c.reference.doubles("grads");
    size_t at = 0;
    for (size_t i = 0; i < c.model.table.size(); ++i) {
      const TensorSpec& spec = c.model.table[i];
      if (!spec.trained) continue;
      double squares = 0;
      for (size_t j = 0; j < spec.size(); ++j)
        squares += std::pow(book.g.numbers[spec.offset + j] - grads[at + j], 2);
      const double terms = c.expected["tensors"][i]["scale"];
      check_error("textbook gradient/" + of.title() + "/" + spec.name, std::sqrt(squares) / terms, kGradient);
      at += spec.size();
    }
  }
}
