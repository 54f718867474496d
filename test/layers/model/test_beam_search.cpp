// Generation by a model with an encoder, and beam search against the enumeration of all texts.

#include <cmath>

#include "generated.hpp"
#include "layers/model/beam_search.hpp"
#include "random_model.hpp"
#include "sources.hpp"

namespace {

constexpr int kV = 5, kEnd = 4;

Config small_translator() {
  Config config;
  config.n_layer = 2, config.n_head = 2, config.kv_heads = 1, config.channels = 8, config.context = 9;
  config.vocab_size = kV, config.objective = Objective::pairs, config.encoder_layers = 1;
  config.placement = "post", config.position = Position::rope, config.qk_norm = QkNormKind::head;
  return config;
}

Model translator() {
  Model model(small_translator(), false);
  randomize(model);
  return model;
}

// Returns the log-probabilities of each token after these (T,V), from a full pass.
std::vector<double> log_probabilities(const Model& model, const std::vector<int>& source,
                                      const std::vector<int>& tokens) {
  const int T = int(tokens.size()), S = int(source.size());
  const std::vector<int> begins(S), from(T), to(T, S);
  const Activations a = allocate_activations(model.config, 1, std::max(T, S), false);
  std::vector<float> logits(size_t(T) * kV);
  batch_logits(logits.data(), model, a,
               {tokens.data(), nullptr, 1, T, nullptr, {source.data(), S, begins.data(), from.data(), to.data()}});
  std::vector<double> log_p = widen(logits);
  for (int t = 0; t < T; ++t) {
    double sum = 0;
    for (int v = 0; v < kV; ++v) sum += std::exp(log_p[t * kV + v]);
    for (int v = 0; v < kV; ++v) log_p[t * kV + v] -= std::log(sum);
  }
  return log_p;
}

double mean_log_p(const Found& text) { return text.log_p / static_cast<double>(text.tokens.size()); }

// Returns the text whose tokens have the highest mean log-probability among all that end, or have this length.
Found best_of_all(const Model& model, const std::vector<int>& source, int length) {
  Found best{{}, -1e9};
  const auto extend = [&](const Found& text, const auto& self) -> void {
    std::vector<int> read = {0};
    read.insert(read.end(), text.tokens.begin(), text.tokens.end());
    const std::vector<double> log_p = log_probabilities(model, source, read);
    for (int v = 0; v < kV; ++v) {
      Found longer = text;
      longer.tokens.push_back(v);
      longer.log_p += log_p[(read.size() - 1) * kV + v];
      longer.ended = v == kEnd;
      if (!longer.ended && int(longer.tokens.size()) < length) self(longer, self);
      else if (best.tokens.empty() || mean_log_p(longer) > mean_log_p(best)) best = longer;
    }
  };
  extend({}, extend);
  return best;
}

Found search(const Model& model, const std::vector<int>& source, int beams, int length) {
  Generator generator(model, 1 + length, beams, nullptr, source);
  return beam_search(generator, {0}, kV, {beams, length, kV, [](int token) { return token == kEnd; }});
}

// Beam search over lists of texts. A text may end only as one of the `beams` likeliest continuations, and texts that
// are still open at the length compete with those that have ended.
Found search_in_lists(const Model& model, const std::vector<int>& source, int beams, int length) {
  std::vector<Found> open = {{}}, done;
  const auto more_likely = [](const Found& a, const Found& b) { return a.log_p > b.log_p; };
  for (int n = 1; n <= length; ++n) {
    std::vector<Found> longer;
    for (const Found& text : open) {
      std::vector<int> read = {0};
      read.insert(read.end(), text.tokens.begin(), text.tokens.end());
      const std::vector<double> log_p = log_probabilities(model, source, read);
      for (int v = 0; v < kV; ++v) {
        longer.push_back(text);
        longer.back().tokens.push_back(v);
        longer.back().log_p += log_p[(read.size() - 1) * kV + v];
      }
    }
    std::ranges::sort(longer, more_likely);
    open.clear();
    for (int i = 0; i < int(longer.size()) && int(open.size()) < beams; ++i) {
      const bool ends = longer[i].tokens.back() == kEnd;
      if (!ends) open.push_back(longer[i]);
      else if (i < beams) done.push_back(longer[i]);
    }
    std::ranges::sort(done, [](const Found& a, const Found& b) { return mean_log_p(a) > mean_log_p(b); });
    if (int(done.size()) > beams) done.resize(beams);
    if (int(done.size()) == beams && mean_log_p(open[0]) <= mean_log_p(done.back())) break;
  }
  done.insert(done.end(), open.begin(), open.end());
  return *std::ranges::max_element(done, {}, mean_log_p);
}

}  // namespace

TEST_CASE("a generator that reads a source has the logits of the full pass", "[generate][cross]") {
  const Model model = translator();
  const std::vector<int> source = random_ints(6, 3, kV), tokens = random_ints(8, 4, kV);
  const std::vector<double> want = log_probabilities(model, source, tokens);
  for (const int piece : {1, 3, 8}) {
    Generator generator(model, 8, 1, nullptr, source);
    for (int t = 0; t < 8; t += piece) {
      const int end = std::min(8, t + piece);
      const float* logits = generator.feed({tokens.begin() + t, tokens.begin() + end});
      double sum = 0;
      for (int v = 0; v < kV; ++v) sum += std::exp(static_cast<double>(logits[v]));
      for (int v = 0; v < kV; ++v)
        CHECK(std::fabs(logits[v] - std::log(sum) - want[(end - 1) * kV + v]) < 1e-5);
    }
  }
}

TEST_CASE("sequences of a cache read a source each", "[generate][cross]") {
  const Model model = translator();
  const std::vector<std::vector<int>> sources = {random_ints(3, 3, kV), random_ints(6, 4, kV), random_ints(1, 5, kV)};
  const std::vector<int> tokens = {1, 2, 3}, next = {3, 0, 2};
  const Activations a = allocate_activations(model.config, 3, 9, false);
  for (const int together : {3, 1}) {  // all sequences at once, or one after the other
    ModelCache cache(model.config, 9, 3);
    read_sources(cache, model, a, sources);
    std::vector<float> logits(3 * kV);
    for (const std::vector<int>* read : {&tokens, &next}) {
      for (int b = 0; b < 3; b += together)
        model_logits(&logits[b * kV], model, a, cache, read->data() + b, together, 1, b);
      cache.past = 1;
    }
    for (int b = 0; b < 3; ++b) {
      Generator alone(model, 2, 1, nullptr, sources[b]);
      const float* want = alone.feed({tokens[b], next[b]});
      for (int v = 0; v < kV; ++v) CHECK(std::fabs(logits[b * kV + v] - want[v]) < 1e-5);
    }
  }
}

TEST_CASE("enough beams find the best of all texts, and one beam none that is better", "[generate][cross][long]") {
  const Model model = translator();
  for (const int seed : {1, 2, 3, 4, 5, 6}) {
    const std::vector<int> source = random_ints(5, seed, kV);
    for (const int length : {1, 2, 4}) {
      const Found want = best_of_all(model, source, length), got = search(model, source, 125, length);
      CHECK(got.tokens == want.tokens);
      CHECK(std::fabs(got.log_p - want.log_p) < 1e-5);
      CHECK(got.ended == want.ended);
    }
    const Found one = search(model, source, 1, 8);
    CHECK(mean_log_p(one) <= mean_log_p(search(model, source, 60, 8)) + 1e-9);
  }
}

TEST_CASE("beam search is that of transformers", "[generate][cross][long]") {
  const Model model = translator();
  for (int seed = 1; seed <= 12; ++seed) {
    const std::vector<int> source = random_ints(5, seed, kV);
    for (const int beams : {2, 3, 4})
      for (const int length : {2, 4, 7}) {
        INFO(seed << ", " << beams << " beams, " << length << " tokens");
        const Found want = search_in_lists(model, source, beams, length), got = search(model, source, beams, length);
        CHECK(got.tokens == want.tokens);
        CHECK(std::fabs(got.log_p - want.log_p) < 1e-5);
      }
  }
}

TEST_CASE("a decoder without a source is refused", "[generate][cross]") {
  const Model model = translator();
  const std::vector<int> tokens = {1};
  const Activations a = allocate_activations(model.config, 1, 4, false);
  ModelCache cache(model.config, 4);
  CHECK_THROWS_AS(model_logits(model, a, cache, tokens.data(), 1), std::logic_error);
  CHECK_THROWS_AS(model_loss(model, a, {tokens.data(), tokens.data(), 1, 1}), std::logic_error);
}
