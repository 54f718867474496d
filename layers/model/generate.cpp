#include "generate.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "layers/kernels/random.hpp"
#include "layers/kernels/simd.hpp"

namespace {

// Tokens by falling weight, ties by number, as many as are asked for: most often a few of many.
class Likeliest {
 public:
  explicit Likeliest(const std::vector<float>& weight) : weight_(weight), heap_(weight.size()) {
    std::iota(heap_.begin(), heap_.end(), 0);
    std::make_heap(heap_.begin(), heap_.end(), after());
  }
  int next() {
    std::pop_heap(heap_.begin(), heap_.end(), after());
    const int token = heap_.back();
    heap_.pop_back();
    return token;
  }

 private:
  std::function<bool(int, int)> after() const {
    return [this](int a, int b) { return weight_[a] != weight_[b] ? weight_[a] < weight_[b] : a > b; };
  }
  const std::vector<float>& weight_;
  std::vector<int> heap_;
};

double mass_of(const std::vector<int>& tokens, const std::vector<float>& weight) {
  double mass = 0;
  for (int v : tokens) mass += static_cast<double>(weight[v]);
  return mass;
}

// The tokens that may be drawn.
std::vector<int> candidates(const std::vector<float>& weight, const Sampling& sampling) {
  const size_t V = weight.size(), most = sampling.top_k > 0 ? std::min<size_t>(sampling.top_k, V) : V;
  std::vector<int> tokens(V);
  std::iota(tokens.begin(), tokens.end(), 0);
  if (most == V && sampling.top_p >= 1) return tokens;

  Likeliest likeliest(weight);
  if (most < V) {
    tokens.resize(most);
    for (int& token : tokens) token = likeliest.next();
  }
  if (sampling.top_p >= 1) return tokens;
  const double wanted = static_cast<double>(sampling.top_p) * mass_of(tokens, weight);
  if (most == V) tokens.clear();
  double mass = 0;
  for (size_t i = 0; i < most; ++i) {
    if (i == tokens.size()) tokens.push_back(likeliest.next());
    mass += static_cast<double>(weight[tokens[i]]);
    if (mass >= wanted) {
      tokens.resize(i + 1);
      break;
    }
  }
  return tokens;
}

std::vector<float> penalized(const float* logits, int V, const std::vector<int>& seen, float penalty) {
  std::vector<float> result(logits, logits + V);
  for (const int v : seen)
    if (v < V) result[v] = logits[v] > 0 ? logits[v] / penalty : logits[v] * penalty;
  return result;
}

}  // namespace

int sample_token(const float* logits, int V, const Sampling& sampling, uint64_t counter, const std::vector<int>& seen) {
  std::vector<float> changed;
  if (sampling.repeat_penalty != 1)
    logits = (changed = penalized(logits, V, seen, sampling.repeat_penalty)).data();
  const int best = static_cast<int>(std::max_element(logits, logits + V) - logits);
  if (sampling.temperature <= 0) return best;

  std::vector<float> weight(V);  // unnormalized probabilities
  simd::sweep(V, [&](int v, int lanes) {
    const simd::Vec above = simd::load(logits + v, lanes) - logits[best];
    simd::store(&weight[v], simd::exp(above / sampling.temperature), lanes);
  });
  std::vector<int> tokens = candidates(weight, sampling);
  std::erase_if(tokens, [&](int v) { return weight[v] < sampling.min_p; });  // the largest weight is 1
  double at = rng::uniform(rng::key({sampling.seed, rng::word("sample")}), counter) * mass_of(tokens, weight);
  for (int v : tokens) {
    at -= static_cast<double>(weight[v]);
    if (at < 0) return v;
  }
  return best;  // rounding left nothing
}

Generator::Generator(const Model& model, int64_t tokens)
    : model_(model),
      cache_(model.config, static_cast<int>(std::min<int64_t>(model.config.context, tokens))),
      activations_(allocate_activations(model.config, 1, cache_.T, false)) {}

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
