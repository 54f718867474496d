#include "generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "random.hpp"

int sample_token(const float* logits, int V, const Sampling& sampling, uint64_t counter) {
  const int best = static_cast<int>(std::max_element(logits, logits + V) - logits);
  if (sampling.greedy || sampling.temperature <= 0) return best;

  std::vector<double> weight(V);  // unnormalised probabilities
  for (int v = 0; v < V; ++v)
    weight[v] = std::exp((static_cast<double>(logits[v]) - static_cast<double>(logits[best])) / sampling.temperature);

  // Likeliest first, ties by number; how many of them may be drawn.
  std::vector<int> order(V);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return weight[a] != weight[b] ? weight[a] > weight[b] : a < b; });
  int allowed = sampling.top_k > 0 ? std::min(sampling.top_k, V) : V;
  double mass = 0;
  for (int i = 0; i < allowed; ++i) mass += weight[order[i]];
  if (sampling.top_p < 1) {
    const double wanted = sampling.top_p * mass;
    mass = 0;
    for (int i = 0; i < allowed; ++i) {
      mass += weight[order[i]];
      if (mass >= wanted) allowed = i + 1;
    }
  }

  double at = rng::uniform(rng::key({sampling.seed, rng::word("sample")}), counter) * mass;
  for (int i = 0; i < allowed - 1; ++i) {
    at -= weight[order[i]];
    if (at < 0) return order[i];
  }
  return order[allowed - 1];
}

Generator::Generator(const Model& model)
    : model_(model),
      activations_(allocate_activations(model.config, 1, model.config.context, false)),
      cache_(model.config) {}

const float* Generator::feed(const std::vector<int>& tokens) {
  const size_t context = model_.config.context;
  size_t fresh = tokens.size();  // how many of the last tokens seen the cache does not hold yet
  seen_.insert(seen_.end(), tokens.begin(), tokens.end());
  if (seen_.size() > context) {
    const size_t keep = std::max<size_t>(1, context / 2);
    seen_.erase(seen_.begin(), seen_.end() - keep);
    cache_.past = 0;
    fresh = keep;
    beyond_ = true;
  }
  return model_logits(model_, activations_, cache_, seen_.data() + seen_.size() - fresh, static_cast<int>(fresh));
}
