#pragma once
//   logits (N,V)   targets (N), kIgnore for rows that do not count   losses (N)
//   forward   loss[n] = log Σᵥ exp(logits[n,v]) − logits[n,target]           0 where ignored
//   backward  dlogits[n,v] = scale·(softmax(logits[n,:])[v] − [v = target])  0 where ignored
// The largest logit is subtracted before exp and added after log: no exponential overflows.

#include <algorithm>

#include "layers/cross_entropy/cross_entropy.hpp"
#include "softmax.hpp"

namespace textbook {

template <class Number>
void cross_entropy_forward(Number* losses, const Number* logits, const int* targets, size_t N, size_t V) {
  for (size_t n = 0; n < N; ++n, logits += V) {
    losses[n] = 0;
    if (targets[n] == kIgnore) continue;
    Number top = logits[0], sum = 0;
    for (size_t v = 1; v < V; ++v) top = larger(top, logits[v]);
    for (size_t v = 0; v < V; ++v) sum += std::exp(logits[v] - top);
    losses[n] = std::log(sum) + top - logits[targets[n]];
  }
}

template <class Number>
void cross_entropy_backward(Number* dlogits, const Number* logits, const int* targets, Number scale, size_t N,
                            size_t V) {
  for (size_t n = 0; n < N; ++n, logits += V, dlogits += V) {
    std::fill_n(dlogits, V, Number(0));
    if (targets[n] == kIgnore) continue;
    softmax_forward(dlogits, logits, V);                  // ∂/∂logits[v] of log Σ exp(logits)
    dlogits[targets[n]] -= Number(1);                     // − logits[target]
    for (size_t v = 0; v < V; ++v) dlogits[v] *= scale;
  }
}

}  // namespace textbook
