#include "router.hpp"

#include <algorithm>
#include <cmath>

#include "layers/kernels/parallel.hpp"

namespace {

constexpr const char* kBias = "selection_bias";

// The elementary operations for E numbers. An exponential costs about twenty.
size_t cost_of(int E) { return 20 * static_cast<size_t>(E); }

// Turns logits into s. Returns log Σ exp l.
float softmax(float* l, int E) {
  const float top = *std::max_element(l, l + E);
  float sum = 0;
  for (int i = 0; i < E; ++i) sum += l[i] = std::exp(l[i] - top);
  for (int i = 0; i < E; ++i) l[i] /= sum;
  return top + std::log(sum);
}

// Returns the expert with the largest s + bias that is not among the first j of `chosen`. NaN is never larger.
int next_best(const float* s, const float* bias, const float* chosen, int j, int E) {
  const auto key = [&](int i) { return bias ? s[i] + bias[i] : s[i]; };
  int best = -1;
  for (int i = 0; i < E; ++i) {
    const bool taken = std::find(chosen, chosen + j, static_cast<float>(i)) < chosen + j;
    if (!taken && (best < 0 || key(i) > key(best))) best = i;
  }
  return best;
}

}  // namespace

Router declare_router(Layout& layout, const Config& config, const std::string& name) {
  Router p;
  const int E = config.experts, C = config.channels;
  p.linear.weight =
      layout.take(name + ".weight", Role::router, {E, C}, weight_start(config, Role::router, E, C, "", Growth::in));
  if (config.router_logit_bias) p.linear.bias = layout.take(name + ".bias", Role::router, {E});
  if (config.router_bias > 0) p.bias = layout.take_untrained(name + "." + kBias, Role::router, {E}, 0);
  return p;
}

bool is_router_bias(const TensorSpec& spec) { return spec.leaf() == kBias; }

RouterSaved declare_router_saved(Layout& layout, const Config& config, const std::string& name, int N) {
  const int E = config.experts, k = config.experts_per_token;
  return {layout.take(name + ".scores", Role::router, {N, E}), layout.take(name + ".lse", Role::router, {N}),
          layout.take(name + ".chosen", Role::router, {N, k}), layout.take(name + ".weights", Role::router, {N, k})};
}

void router_forward(const RouterSaved& saved, const float* u, const Router& p, const Config& config, int N) {
  const int E = config.experts, k = config.experts_per_token;
  linear_forward(saved.scores, u, p.linear, {N, config.channels, E});
  parallel_each(N, cost_of(k * E), [&](size_t n) {
    float *s = saved.scores + n * E, *chosen = saved.chosen + n * k, *weights = saved.weights + n * k, sum = 0;
    saved.lse[n] = softmax(s, E);
    for (int j = 0; j < k; ++j) {
      const int best = next_best(s, p.bias, chosen, j, E);
      chosen[j] = static_cast<float>(best);
      sum += weights[j] = s[best];
    }
    if (config.router_renormalize)
      for (int j = 0; j < k; ++j) weights[j] /= sum;
  });
}

std::vector<int> router_load(const RouterSaved& saved, const Config& config, int N) {
  std::vector<int> load(config.experts);
  for (size_t i = 0; i < static_cast<size_t>(N) * config.experts_per_token; ++i) ++load[int(saved.chosen[i])];
  return load;
}

void router_backward(float* d, const RouterSaved& saved, const Config& config, float scale, int N) {
  const int E = config.experts, k = config.experts_per_token;
  const std::vector<int> load = router_load(saved, config, N);
  std::vector<float> balance(E);  // the gradient of the balance loss with respect to sᵢ, the same in all rows
  for (int i = 0; i < E; ++i)
    balance[i] = config.router_loss * scale * static_cast<float>(E) * static_cast<float>(load[i]) /
                 static_cast<float>(size_t(N) * k);
  parallel_each(N, cost_of(E), [&](size_t n) {
    const float *s = saved.scores + n * E, *chosen = saved.chosen + n * k, *weights = saved.weights + n * k;
    float *dl = d + n * E, sum = 0, mean = 0;
    for (int i = 0; i < E; ++i) {
      sum += dl[i];
      mean += s[i] * balance[i];
    }
    if (config.router_renormalize)  // p = softmax of the chosen l
      for (int j = 0; j < k; ++j) dl[int(chosen[j])] -= weights[j] * sum;
    const float all = (config.router_renormalize ? 0 : sum) + mean - 2 * config.router_z_loss * scale * saved.lse[n];
    for (int i = 0; i < E; ++i) dl[i] += s[i] * (balance[i] - all);  // s = softmax(l), dlse/dlᵢ = sᵢ
  });
}

void update_router_bias(float* bias, const double* load, int E, float rate) {
  double mean = 0;
  for (int i = 0; i < E; ++i) mean += load[i] / E;
  for (int i = 0; i < E; ++i) {
    if (load[i] < mean) bias[i] += rate;
    if (load[i] > mean) bias[i] -= rate;
  }
}
