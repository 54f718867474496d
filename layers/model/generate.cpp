#include "generate.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "layers/kernels/random.hpp"
#include "layers/kernels/simd.hpp"

namespace {

// Iterates over tokens by falling weight, ties by number. It is a heap, because usually only a few of many are needed.
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
  return best;  // rounding used up the mass
}

namespace {

int length_of_cache(const Config& config, int64_t tokens) {
  return static_cast<int>(std::min<int64_t>(config.context, tokens));
}

}  // namespace

int sequences_together(const Config& config, int64_t tokens, int64_t wanted) {
  constexpr size_t kMostBytes = size_t{1} << 30;
  const size_t each = sizeof(float) * config.n_layer * length_of_cache(config, tokens) * cache_width(config);
  return static_cast<int>(std::min<int64_t>(wanted, std::clamp<size_t>(kMostBytes / each, 1, kMostSequences)));
}

Generator::Generator(const Model& model, int64_t tokens, int sequences, const Activations* activations,
                     const std::vector<int>& source)
    : model_(model),
      cache_(model.config, length_of_cache(model.config, tokens), sequences),
      own_(activations ? Activations()
                       : allocate_activations(model.config, 1,
                                              std::max({cache_.T, sequences, static_cast<int>(source.size())}), false)),
      activations_(activations ? *activations : own_),
      seen_(1) {
  if (model.config.crosses()) read_sources(cache_, model, activations_, {source});
}

const float* Generator::feed(const std::vector<int>& tokens) {
  seen_[0].insert(seen_[0].end(), tokens.begin(), tokens.end());
  return must_read_again() ? read_again() : read(tokens, static_cast<int>(tokens.size()));
}

const float* Generator::step(const std::vector<int>& tokens) {
  for (size_t b = 0; b < tokens.size(); ++b) seen_[b].push_back(tokens[b]);
  return must_read_again() ? read_again() : read(tokens, 1);
}

// True if the context is full, or if the keys in the cache have other angles than those of a sequence as long as this.
bool Generator::must_read_again() const {
  const size_t now = seen_[0].size(), past = static_cast<size_t>(cache_.past);
  const RopeTable& rope = model_.ropes.all;
  const size_t original = static_cast<size_t>(rope.original);
  return now > size_t(model_.config.context) || (rope.longer && past > 0 && past <= original && now > original);
}

// Reads T more tokens of each sequence: tokens (sequences,T).
const float* Generator::read(const std::vector<int>& tokens, int T) {
  model_logits(activations_.logits, model_, activations_, cache_, tokens.data(), static_cast<int>(seen_.size()), T);
  cache_.past += T;
  return activations_.logits;
}

// Reads the newer half of a full context again, sequence by sequence; or all of one that is not full.
const float* Generator::read_again() {
  const bool full = seen_[0].size() > size_t(model_.config.context);
  const size_t keep = full ? std::max(1, model_.config.context / 2) : seen_[0].size();
  cache_.past = 0;
  for (size_t b = 0; b < seen_.size(); ++b) {
    seen_[b].erase(seen_[b].begin(), seen_[b].end() - keep);
    model_logits(activations_.logits + b * model_.config.vocab_size, model_, activations_, cache_, seen_[b].data(), 1,
                 static_cast<int>(keep), static_cast<int>(b));
  }
  cache_.past = static_cast<int>(keep);
  beyond_ |= full;
  return activations_.logits;
}

const float* Generator::split(int sequences) {
  seen_.resize(sequences, seen_[0]);
  const size_t V = model_.config.vocab_size;
  for (int b = 1; b < sequences; ++b) {
    copy_cache(b, 0);
    std::copy_n(activations_.logits, V, activations_.logits + b * V);
  }
  return activations_.logits;
}

void Generator::keep(const std::vector<int>& sequences) {
  for (size_t b = 0; b < sequences.size(); ++b) {
    if (sequences[b] == static_cast<int>(b)) continue;
    seen_[b] = std::move(seen_[sequences[b]]);
    copy_cache(static_cast<int>(b), sequences[b]);
  }
  seen_.resize(sequences.size());
}

void Generator::fork(const std::vector<int>& parents) {
  const size_t each = size_t(cache_.past) * cache_width(model_.config);
  const std::vector<std::vector<int>> seen = seen_;
  seen_.resize(parents.size());
  for (size_t b = 0; b < parents.size(); ++b) seen_[b] = seen[parents[b]];
  for (int l = 0; l < model_.config.n_layer; ++l) {
    std::vector<std::vector<float>> rows;
    for (const int parent : parents) {
      const float* cached = cache_.layer(model_.config, l, parent);
      rows.emplace_back(cached, cached + each);
    }
    for (size_t b = 0; b < parents.size(); ++b) std::ranges::copy(rows[b], cache_.layer(model_.config, l, int(b)));
  }
}

void Generator::copy_cache(int to, int from) {
  const Config& config = model_.config;
  for (int l = 0; l < config.n_layer; ++l)
    std::copy_n(cache_.layer(config, l, from), cache_.past * cache_width(config), cache_.layer(config, l, to));
}
