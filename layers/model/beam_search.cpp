#include "beam_search.hpp"

#include <algorithm>
#include <cmath>

namespace {

// Writes log softmax of the first `vocabulary` logits.
std::vector<double> log_probabilities(const float* logits, int vocabulary) {
  std::vector<double> log_p(logits, logits + vocabulary);
  const double top = *std::ranges::max_element(log_p);
  double sum = 0;
  for (const double l : log_p) sum += std::exp(l - top);
  for (double& l : log_p) l -= top + std::log(sum);
  return log_p;
}

// A beginning of a text, and one more token.
struct Candidate {
  int parent, token;
  double log_p;
};

// Returns the likeliest candidates, ties by parent and token.
std::vector<Candidate> candidates(const std::vector<Found>& open, const float* logits, int V,
                                  const BeamSearch& search) {
  std::vector<Candidate> all;
  for (size_t b = 0; b < open.size(); ++b) {
    const std::vector<double> log_p = log_probabilities(logits + b * size_t(V), search.vocabulary);
    for (int v = 0; v < search.vocabulary; ++v) all.push_back({int(b), v, open[b].log_p + log_p[v]});
  }
  const size_t most = std::min(all.size(), 2 * size_t(search.beams));  // half of them may end
  std::ranges::partial_sort(all, all.begin() + ptrdiff_t(most), [](const Candidate& a, const Candidate& b) {
    if (a.log_p != b.log_p) return a.log_p > b.log_p;
    return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
  });
  all.resize(most);
  return all;
}

bool is_better(const Found& a, const Found& b) { return a.score() > b.score(); }

}  // namespace

Found beam_search(Generator& generator, const std::vector<int>& prompt, int V, const BeamSearch& search) {
  const size_t beams = static_cast<size_t>(search.beams);
  std::vector<Found> open = {{}}, done;  // done: the best that have ended, at most as many as beams
  const float* logits = generator.feed(prompt);
  for (int n = 1; n <= search.length && !(search.stopped && search.stopped()); ++n) {
    std::vector<Found> next;
    std::vector<int> parents, tokens;
    size_t rank = 0;
    for (const Candidate& c : candidates(open, logits, V, search)) {
      const bool leads = rank++ < beams;
      Found text = open[c.parent];
      text.tokens.push_back(c.token);
      text.log_p = c.log_p;
      text.ended = search.ends(c.token);
      if (text.ended) {
        if (leads) done.push_back(std::move(text));
      } else if (next.size() < beams) {
        parents.push_back(c.parent);
        tokens.push_back(c.token);
        next.push_back(std::move(text));
      }
    }
    open = std::move(next);
    std::ranges::stable_sort(done, is_better);
    if (done.size() > beams) done.resize(beams);
    if (open.empty() || n == search.length || (done.size() == beams && !is_better(open[0], done.back()))) break;
    generator.fork(parents);
    logits = generator.step(tokens);
  }
  done.insert(done.end(), open.begin(), open.end());  // too long, or stopped; else they cannot win
  return *std::ranges::max_element(done, [](const Found& a, const Found& b) { return is_better(b, a); });
}
