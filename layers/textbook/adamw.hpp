#pragma once
// AdamW and gradient clipping.
//
// One step of one tensor of n numbers. t counts from 1; weight_decay is 0 for tensors that do not decay.
//   g ← g·gradient_factor
//   m ← β₁ m + (1 − β₁) g            v ← β₂ v + (1 − β₂) g²
//   w ← w − lr·weight_decay·w
//   w ← w − lr · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + eps)
// Clipping by the global norm: gradient_factor = min(1, clip / (‖g‖ + 1e-6)), or 1 if clip is 0.

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace textbook {

template <class Number>
Number gradient_norm(const Number* gradients, size_t n) {
  Number sum = 0;
  for (size_t i = 0; i < n; ++i) sum += gradients[i] * gradients[i];
  return std::sqrt(sum);
}

template <class Number>
Number clip_factor(Number norm, Number clip) {
  return clip > 0 ? std::min(clip / (norm + Number(1e-6)), Number(1)) : Number(1);
}

// What all tensors have in common in a step.
template <class Number>
struct StepNow {
  Number lr, gradient_factor;
  int t;
};

template <class Number>
struct AdamW {
  Number beta1, beta2, eps, weight_decay;
};

template <class Number>
void adamw_step(Number* weights, Number* m, Number* v, const Number* gradients, size_t n, const AdamW<Number>& p,
                const StepNow<Number>& now) {
  const auto [beta1, beta2, eps, weight_decay] = p;
  const auto [lr, gradient_factor, t] = now;
  for (size_t i = 0; i < n; ++i) {
    const Number g = gradients[i] * gradient_factor;
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    const Number mean = m[i] / (1 - std::pow(beta1, t)), square = v[i] / (1 - std::pow(beta2, t));
    weights[i] -= lr * weight_decay * weights[i];
    weights[i] -= lr * mean / (std::sqrt(square) + eps);
  }
}

}  // namespace textbook
