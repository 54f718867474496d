#pragma once
// The loss, and the soft cap that may limit the logits.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "attention.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"

namespace textbook {

// ---- soft cap ------------------------------------------------------------------------------------------------

//   x, y (n)
//   forward   y = c·tanh(x/c)               c: the cap. |y| < c, and y ≈ x if |x| is much smaller than c
//   backward  dx = dy·(1 − tanh²(x/c))      dx may be dy

template <class Number>
void soft_cap_forward(Number* y, const Number* x, double cap, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = cap * std::tanh(x[i] / cap);
}

template <class Number>
void soft_cap_backward(Number* dx, const Number* dy, const Number* x, double cap, size_t n) {
  for (size_t i = 0; i < n; ++i) dx[i] = dy[i] * (Number(1) - std::pow(std::tanh(x[i] / cap), 2));  // y = c·tanh(x/c)
}

// ---- cross-entropy -------------------------------------------------------------------------------------------

//   logits (N,V)   targets (N), kIgnore for rows without a loss   losses (N)
//   forward   loss[n] = log Σᵥ exp(logits[n,v]) − logits[n,target]           0 if ignored
//   backward  dlogits[n,v] = scale·(softmax(logits[n,:])[v] − [v = target])  0 if ignored
// Subtracting the largest logit before exp and adding it after log keeps exp from overflowing.

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

// ---- z-loss --------------------------------------------------------------------------------------------------

//   forward   z_loss·log²Z, where log Z = log Σᵥ exp(logits[n,v])            0 if ignored
//   backward  dlogits[n,v] += scale·z_loss·2·log Z·softmax(logits[n,:])[v]

template <class Number>
void z_loss_forward(Number* losses, const Number* logits, const int* targets, Number z_loss, size_t N, size_t V) {
  for (size_t n = 0; n < N; ++n, logits += V) {
    losses[n] = 0;
    if (targets[n] == kIgnore) continue;
    const int first = 0;
    Number log_z;
    cross_entropy_forward(&log_z, logits, &first, 1, V);  // log Z − logits[0]
    log_z += logits[0];
    losses[n] = z_loss * log_z * log_z;
  }
}

template <class Number>
void z_loss_backward(Number* dlogits, const Number* logits, const int* targets, Number z_loss, Number scale, size_t N,
                     size_t V) {
  std::vector<Number> p(V);
  for (size_t n = 0; n < N; ++n, logits += V, dlogits += V) {
    if (targets[n] == kIgnore) continue;
    const int first = 0;
    Number log_z;
    cross_entropy_forward(&log_z, logits, &first, 1, V);
    log_z += logits[0];
    softmax_forward(p.data(), logits, V);
    for (size_t v = 0; v < V; ++v) dlogits[v] += scale * z_loss * Number(2) * log_z * p[v];
  }
}

// ---- label smoothing -----------------------------------------------------------------------------------------

// What smoothing adds to the loss of a target, so that it is −Σᵥ q[v]·log softmax(logits)[v] with
// q[v] = (1 − ε)·[v = target] + ε/V.
//   forward   ε·(logits[n,target] − mean of logits[n,:])                     0 if ignored
//   backward  dlogits[n,v] += scale·ε·([v = target] − 1/V)

template <class Number>
void smoothing_forward(Number* losses, const Number* logits, const int* targets, double epsilon, size_t N, size_t V) {
  for (size_t n = 0; n < N; ++n, logits += V) {
    losses[n] = 0;
    if (targets[n] == kIgnore) continue;
    Number mean = 0;
    for (size_t v = 0; v < V; ++v) mean += logits[v] / double(V);
    losses[n] = epsilon * (logits[targets[n]] - mean);
  }
}

template <class Number>
void smoothing_backward(Number* dlogits, const int* targets, double epsilon, Number scale, size_t N, size_t V) {
  for (size_t n = 0; n < N; ++n, dlogits += V) {
    if (targets[n] == kIgnore) continue;
    dlogits[targets[n]] += scale * epsilon;
    for (size_t v = 0; v < V; ++v) dlogits[v] -= scale * epsilon / double(V);
  }
}

}  // namespace textbook
