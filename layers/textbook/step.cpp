#include "step.hpp"

#include <algorithm>
#include <cmath>

#include "adamw.hpp"
#include "model.hpp"

namespace textbook {
namespace {

using Doubles = std::vector<double>;

Doubles widened(const float* x, size_t n) { return {x, x + n}; }
void round_to(float* x, const Doubles& numbers) { std::copy(numbers.begin(), numbers.end(), x); }

double loss_and_gradients(::Model& model, const Activations& activations, const Batch& batch, float scale,
                          const Dropout& dropout, Observer*) {
  Model<double> book(model, batch.B, batch.T, dropout);
  float* gradients = model.gradients.get();
  double* wide = book.pass.g.numbers.data();  // in the layout of the weights
  for (const TensorSpec& spec : model.table)
    if (spec.gradient != kNoGradient)
      std::copy_n(gradients + spec.gradient, spec.size(), wide + spec.offset);
  const double loss = book.forward(batch);
  book.backward(batch, scale);
  for (const TensorSpec& spec : model.table)
    if (spec.gradient != kNoGradient)
      std::copy_n(wide + spec.offset, spec.size(), gradients + spec.gradient);
  round_to(model.weights.get(), book.pass.p.numbers);  // changed only by the running statistics of BatchNorm
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

void adamw(float* weights, std::span<float* const> state, const float* gradients, const std::vector<TensorSpec>& table,
           const AdamW& o, float lr, float gradient_factor, int64_t t) {
  for (const TensorSpec& spec : table) {
    if (!kAdamW.takes(spec)) continue;
    const size_t n = spec.size();
    float *w_at = weights + spec.offset, *m_at = &state[0][spec.gradient], *v_at = &state[1][spec.gradient];
    const Doubles g = widened(gradients + spec.gradient, n);
    Doubles wide_w = widened(w_at, n), wide_m = widened(m_at, n), wide_v = widened(v_at, n);
    adamw_step<double>(wide_w.data(), wide_m.data(), wide_v.data(), g.data(), n, o.beta1, o.beta2, o.eps,
                       spec.decay ? o.weight_decay : 0, lr * spec.rate, gradient_factor, static_cast<int>(t));
    round_to(w_at, wide_w), round_to(m_at, wide_m), round_to(v_at, wide_v);
  }
}

const Optimizer textbook_adamw = {kAdamW.name, kAdamW.slots, kAdamW.takes, adamw};

}  // namespace
}  // namespace textbook

const StepFunctions kTextbookStep = {textbook::loss_and_gradients, textbook::norm_of_gradients, textbook::clip,
                                     &textbook::textbook_adamw};

size_t memory_of_textbook(const Config& c, int B) {
  const textbook::Sizes s = textbook::sizes_of(c, B, c.context);
  Layout parameters;
  declare_model(parameters, c);
  const size_t qk = c.qk_norm == QkNormKind::none ? 0 : (s.H + s.KV) * s.D;
  const size_t up = is_gated(c.activation) ? 2 * s.F : s.F;
  const size_t branches = 12 * s.C;  // u, f, norm_out(f), s and dropout of each branch, middle and y
  const size_t row = s.qkv() + qk + 2 * s.H * s.D + up + 2 * s.F + branches;
  const size_t blocks = checked_product({size_t(c.n_layer) + 1, s.N, row});  // one more for the buffers of backward
  const size_t attention = checked_product({size_t(c.n_layer), 2 * s.N, s.H, s.T});  // P and the multipliers of dropout
  const size_t head = checked_product({4, s.N, s.V});
  return checked_product({sizeof(double), 2 * parameters.size() + blocks + attention + head});
}
