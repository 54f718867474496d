#include "step.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "adamw.hpp"
#include "layers/training/adafactor.hpp"
#include "layers/training/muon.hpp"
#include "model.hpp"
#include "optimizers.hpp"

namespace textbook {
namespace {

using Doubles = std::vector<double>;

Doubles widened(const float* x, size_t n) { return {x, x + n}; }
void round_to(float* x, const Doubles& numbers) { std::copy(numbers.begin(), numbers.end(), x); }

double loss_and_gradients(::Model& model, const Activations& activations, const Batch& batch, LossScale scale,
                          const Dropout& dropout, Observer*) {
  const auto made = std::make_unique<Model<double>>(model, batch.B, batch.T, dropout, true, batch.encoder);
  Model<double>& book = *made;
  float* gradients = model.gradients.get();
  double* wide = book.g.numbers.data();  // in the layout of the weights
  for (const TensorSpec& spec : model.table)
    if (spec.gradient != kNoGradient)
      std::copy_n(gradients + spec.gradient, spec.size(), wide + spec.offset);
  const double loss = book.forward(batch);
  book.backward(batch, scale.targets, scale.tokens);
  for (const TensorSpec& spec : model.table)
    if (spec.gradient != kNoGradient)
      std::copy_n(wide + spec.offset, spec.size(), gradients + spec.gradient);
  size_t layer = 0;
  for (const Stack<double>* stack : {&book.encoder, &book.stack})
    for (const Block<double>& block : stack->blocks) {
      for (const size_t expert : block.ffn.experts.routed.chosen)
        ++model.load[layer * size_t(model.config.experts) + expert];
      ++layer;
    }
  round_to(model.weights.get(), book.p.numbers);  // changed only by the running statistics of BatchNorm
  // The caller looks in `activations` for the tensor that is not finite; the fast forward pass fills them.
  if (!std::isfinite(loss)) model_loss(model, activations, batch);
  return loss;
}

double norm_of_gradients(const float* gradients, const std::vector<TensorSpec>& table) {
  Doubles trained;
  for (const TensorSpec& spec : table)
    if (spec.trained)
      trained.insert(trained.end(), gradients + spec.gradient, gradients + spec.gradient + spec.size());
  return gradient_norm(trained.data(), trained.size());
}

float clip(double norm, double largest) { return static_cast<float>(clip_factor(norm, largest)); }

// A tensor of an update, in double. The destructor rounds weights and state to float.
struct WideTensor {
  Doubles weights, gradients;
  std::vector<Doubles> state;  // slots

  WideTensor(const UpdateBuffers& b, const TensorSpec& tensor) : buffers(b), spec(tensor), slots(state_table(tensor)) {
    weights = widened(buffers.weights + spec.offset, spec.size());
    gradients = widened(buffers.gradients + spec.gradient, spec.size());
    for (const TensorSpec& slot : slots) state.push_back(widened(buffers.state + slot.offset, slot.size()));
  }
  ~WideTensor() {
    round_to(buffers.weights + spec.offset, weights);
    for (size_t i = 0; i < slots.size(); ++i) round_to(buffers.state + slots[i].offset, state[i]);
  }

 private:
  const UpdateBuffers& buffers;
  const TensorSpec& spec;
  std::vector<TensorSpec> slots;
};

StepNow<double> widened(const UpdateStep& now, const TensorSpec& spec) {
  return {now.lr * spec.rate, now.gradient_factor, static_cast<int>(now.t)};
}

void adamw(const UpdateBuffers& buffers, const std::vector<TensorSpec>& table, const OptimizerOptions& o,
           const UpdateStep& now) {
  for (const TensorSpec& spec : table) {
    WideTensor x(buffers, spec);
    adamw_step<double>(x.weights.data(), x.state[0].data(), x.state[1].data(), x.gradients.data(), spec.size(),
                       {o.beta1, o.beta2, epsilon_of(spec, o), decay_of(spec, o)}, widened(now, spec));
  }
}

void sgd(const UpdateBuffers& buffers, const std::vector<TensorSpec>& table, const OptimizerOptions& o,
         const UpdateStep& now) {
  for (const TensorSpec& spec : table) {
    WideTensor x(buffers, spec);
    sgd_step<double>(x.weights.data(), x.state[0].data(), x.gradients.data(), spec.size(),
                     {o.momentum, o.nesterov, decay_of(spec, o)}, widened(now, spec));
  }
}

void lion(const UpdateBuffers& buffers, const std::vector<TensorSpec>& table, const OptimizerOptions& o,
          const UpdateStep& now) {
  for (const TensorSpec& spec : table) {
    WideTensor x(buffers, spec);
    lion_step<double>(x.weights.data(), x.state[0].data(), x.gradients.data(), spec.size(),
                      {o.beta1, o.beta2, decay_of(spec, o)}, widened(now, spec));
  }
}

// A matrix has two slots, a vector has one.
void adafactor(const UpdateBuffers& buffers, const std::vector<TensorSpec>& table, const OptimizerOptions& o,
               const UpdateStep& now) {
  for (const TensorSpec& spec : table) {
    WideTensor x(buffers, spec);
    const bool factored = x.state.size() > 1;
    adafactor_step<double>(x.weights.data(), factored ? x.state[0].data() : nullptr, x.state.back().data(),
                           x.gradients.data(), factored ? spec.shape[0] : 1, factored ? spec.shape[1] : spec.size(),
                           decay_of(spec, o), widened(now, spec));
  }
}

// NorMuon if it has a second slot.
void muon(const UpdateBuffers& buffers, const std::vector<TensorSpec>& table, const OptimizerOptions& o,
          const UpdateStep& now) {
  const PolarRounds rounds = polar_rounds(o.polar);
  for (const TensorSpec& spec : table) {
    WideTensor x(buffers, spec);
    const int rows = spec.shape[0], cols = spec.shape[1];
    const Muon<double, decltype(rounds.polynomials)> settings = {
        o.momentum, o.nesterov, rounds.polynomials, rounds.margin,
        o.beta2,    muon_scale(o.muon_scale, rows, cols), decay_of(spec, o)};
    muon_step(x.weights.data(), x.state[0].data(), x.state.size() > 1 ? x.state[1].data() : nullptr,
              x.gradients.data(), rows, cols, settings, widened(now, spec));
  }
}

constexpr std::pair<const Optimizer*, Update> kUpdates[] = {
    {&kAdamW, adamw}, {&kSgd, sgd},   {&kLion, lion},     {&kAdafactor, adafactor}, {&kAdafactorVectors, adafactor},
    {&kMuon, muon},   {&kNorMuon, muon}};

Update update_of(const Optimizer& row) {
  const auto found = std::ranges::find(kUpdates, &row, &std::pair<const Optimizer*, Update>::first);
  if (found == std::end(kUpdates)) throw std::logic_error(std::string("the textbook has no ") + row.name);
  return found->second;
}

}  // namespace
}  // namespace textbook

const StepFunctions kTextbookStep = {textbook::loss_and_gradients, textbook::norm_of_gradients, textbook::clip,
                                     kAdamWAlone, textbook::update_of};

size_t memory_of_textbook(const Config& c, int B) {
  const textbook::Sizes s = textbook::sizes_of(c, B, c.context);
  Layout parameters;
  declare_model(parameters, c);
  const size_t qk = c.qk_norm == QkNormKind::none ? 0 : (s.H + 2 * s.KV) * s.D;
  const size_t shared = s.C + 2 * s.KV * s.D + c.gate_width() + s.H * s.D;  // mixed stream, values, gate and its output
  const size_t up = is_gated(c.activation) ? 2 * s.F : s.F;
  const size_t run = c.experts_run(), experts = c.experts > 0 ? 3 * size_t(c.experts) + run * s.C : 0;
  const size_t branches = 12 * s.C;  // u, f, norm_out(f), s and dropout of each branch, middle and y
  // Of several streams middle and y, the gradients of both, and for each branch norm(x), h, f, s, z and coefficients.
  const size_t streams = s.S == 1 ? 0 : 2 * (2 * s.S + 3) * s.C + 4 * s.S * s.C + 4 * s.S * (s.S + 2);
  const size_t row = s.qkv() + qk + shared + 2 * s.H * s.D + run * (up + 2 * s.F) + experts + branches + streams;
  const size_t blocks = checked_product({size_t(c.n_layer) + 1, s.N, row});  // one more for the buffers of backward
  const size_t attention = checked_product({size_t(c.n_layer), 2 * s.N, s.H, s.T});  // P and the multipliers of dropout
  const size_t head = checked_product({4, s.N, s.V});
  return checked_product({sizeof(double), 2 * parameters.size() + blocks + attention + head});
}
