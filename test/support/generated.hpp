#pragma once
// Generation against the full forward pass.

#include <initializer_list>

#include "check.hpp"
#include "layers/model/generate.hpp"

// CHECKs that a generator fed with `tokens` in chunks has the logits of the full forward pass.
inline void check_generated(const std::string& name, const Model& model, const std::vector<int>& tokens,
                            std::initializer_list<int> chunks, double tolerance) {
  const int T = int(tokens.size()), V = model.config.vocab_size;
  const Activations a = allocate_activations(model.config, 1, T, false);
  model_loss(model, a, {tokens.data(), tokens.data(), 1, T});
  const std::vector<double> want = widen({a.logits, size_t(T) * V});
  for (const int chunk : chunks) {
    Generator generator(model, model.config.context);
    for (int t = 0; t < T; t += chunk) {
      const int end = std::min(T, t + chunk);
      const float* got = generator.feed({tokens.begin() + t, tokens.begin() + end});
      check_close(name, {got, size_t(V)}, std::span(want).subspan((end - 1) * V, V), tolerance);
    }
    CHECK_FALSE(generator.beyond_context());
  }
}
