#pragma once
// The mixture of experts: router and balancing.
//
//   s = softmax(l), l (N,E): the logits of the router            chosen: the k largest of s + bias
//   p_j = s_j, or s_j divided by the sum of the chosen s
//
// The choice is a constant: it jumps where two numbers are equal, and has slope 0 everywhere else.

#include <algorithm>
#include <vector>

#include "number.hpp"

namespace textbook {

// ---- choice --------------------------------------------------------------------------------------------------

struct Routing {
  size_t E, k;
  bool renormalize;
  double balance, z;  // weights of the load-balancing loss and of the router's z-loss
};

template <class Number>
struct RouterSaved {
  std::vector<Number> s, lse, p;  // (N,E), (N), (N,k)
  std::vector<size_t> chosen;     // (N,k)
};

// The k largest of s + bias, ties to the lower number.
template <class Number>
std::vector<size_t> largest(const Number* s, const Number* bias, size_t E, size_t k) {
  std::vector<size_t> order(E);
  for (size_t i = 0; i < E; ++i) order[i] = i;
  const auto key = [&](size_t i) { return std::real(s[i]) + (bias ? std::real(bias[i]) : 0); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) > key(b); });
  order.resize(k);
  return order;
}

// ---- router --------------------------------------------------------------------------------------------------

template <class Number>
void router_forward(RouterSaved<Number>& saved, const Number* logits, const Number* bias, const Routing& r, size_t N) {
  saved = {std::vector<Number>(N * r.E), std::vector<Number>(N), std::vector<Number>(N * r.k), {}};
  for (size_t n = 0; n < N; ++n) {
    Number sum = 0, chosen_sum = 0;
    for (size_t i = 0; i < r.E; ++i) sum += std::exp(logits[n * r.E + i]);
    saved.lse[n] = std::log(sum);
    for (size_t i = 0; i < r.E; ++i) saved.s[n * r.E + i] = std::exp(logits[n * r.E + i]) / sum;
    for (const size_t i : largest(&saved.s[n * r.E], bias, r.E, r.k)) {
      saved.chosen.push_back(i);
      chosen_sum += saved.s[n * r.E + i];
    }
    for (size_t j = 0; j < r.k; ++j)
      saved.p[n * r.k + j] =
          saved.s[n * r.E + saved.chosen[n * r.k + j]] / (r.renormalize ? chosen_sum : Number(1));
  }
}

// ---- losses --------------------------------------------------------------------------------------------------

// Returns each expert's share of all choices.
template <class Number>
std::vector<double> shares(const RouterSaved<Number>& saved, const Routing& r) {
  std::vector<double> f(r.E);
  for (const size_t i : saved.chosen) f[i] += 1. / double(saved.chosen.size());
  return f;
}

// The sum over all tokens of both losses, times their weights.
//   balance  E·Σᵢ fᵢ·s[n,i]      z  lse[n]²
template <class Number>
Number router_losses(const RouterSaved<Number>& saved, const Routing& r, size_t N) {
  const std::vector<double> f = shares(saved, r);
  Number sum = 0;
  for (size_t n = 0; n < N; ++n) {
    for (size_t i = 0; i < r.E; ++i) sum += r.balance * double(r.E) * f[i] * saved.s[n * r.E + i];
    sum += r.z * saved.lse[n] * saved.lse[n];
  }
  return sum;
}

// ---- backward ------------------------------------------------------------------------------------------------

// Computes dlogits from dp (N,k) and from `scale` times the losses.
template <class Number>
void router_backward(Number* dlogits, const Number* dp, const RouterSaved<Number>& saved, const Routing& r,
                     Number scale, size_t N) {
  const std::vector<double> f = shares(saved, r);
  for (size_t n = 0; n < N; ++n) {
    const Number *s = &saved.s[n * r.E], *p = &saved.p[n * r.k];
    const size_t* chosen = &saved.chosen[n * r.k];
    std::vector<Number> ds(r.E);
    Number chosen_sum = r.renormalize ? 0 : 1, dp_p = 0, ds_s = 0;
    for (size_t j = 0; r.renormalize && j < r.k; ++j) {
      chosen_sum += s[chosen[j]];
      dp_p += dp[n * r.k + j] * p[j];
    }
    for (size_t j = 0; j < r.k; ++j)
      ds[chosen[j]] += (dp[n * r.k + j] - dp_p) / chosen_sum;  // p_j = s_j / Σ s, or s_j
    for (size_t i = 0; i < r.E; ++i) ds[i] += scale * r.balance * double(r.E) * f[i];
    for (size_t i = 0; i < r.E; ++i) ds_s += ds[i] * s[i];
    for (size_t i = 0; i < r.E; ++i)
      dlogits[n * r.E + i] = s[i] * (ds[i] - ds_s)                      // s = softmax(l)
                             + scale * r.z * 2. * saved.lse[n] * s[i];  // dlse/dl = s
  }
}

}  // namespace textbook
