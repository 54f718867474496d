#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

// A wrong gradient by one logit: p is its softmax, e its exp, t 1 at the target and 0 elsewhere.
struct Formula {
  const char* text;
  double (*gradient)(double p, double e, double t, double scale);
};
const Formula formulas[] = {
    {"it is the softmax alone: - logits[n,target] is missing", [](auto p, auto, auto, auto s) { return s * p; }},
    {"the softmax is missing: log Σ exp depends on every logit", [](auto, auto, auto t, auto s) { return -s * t; }},
    {"the 1 at the target is added, and is to be subtracted", [](auto p, auto, auto t, auto s) { return s * (p + t); }},
    {"the 1 at the target is not multiplied by scale", [](auto p, auto, auto t, auto s) { return s * p - t; }},
    {"the softmax is not multiplied by scale", [](auto p, auto, auto t, auto s) { return p - s * t; }},
    {"1 is subtracted at every v, and is to be at the target alone",
     [](auto p, auto, auto, auto s) { return s * (p - 1); }},
    {"exp instead of the softmax: / Σ exp is missing",
     [](auto, auto e, auto t, auto s) { return s * (e - t); }},
    {"it is multiplied by p once more: p - [v = target] is all",
     [](auto p, auto, auto t, auto s) { return s * p * (p - t); }}};

Doubles gradient(const Formula& formula, const Doubles& logits, const std::vector<int>& targets, double scale) {
  const size_t N = targets.size(), V = logits.size() / N;
  Doubles d(logits.size()), p(V);
  for (size_t n = 0; n < N; ++n) {
    textbook::softmax_forward(p.data(), &logits[n * V], V);
    for (size_t v = 0; v < V && targets[n] != kIgnore; ++v)
      d[n * V + v] = formula.gradient(p[v], std::exp(logits[n * V + v]), targets[n] == int(v), scale);
  }
  return d;
}

void backward(Judge& judge) {
  struct Case {
    const char* title;
    std::vector<int> targets;
    double scale, size;  // `size` is the logits'
  };
  const size_t N = 4, V = 5;
  for (const auto& [title, targets, scale, size] :
       {Case{"logits of about 1, scale 1 · N=4 V=5", {1, 4, 0, 1}, 1, 1},
        {"the mean of 4 rows: scale 0.25", {1, 4, 0, 1}, .25, 1},
        {"row 2 does not count: scale 1/3", {1, 4, kIgnore, 1}, 1. / 3, 1},
        {"logits of about a thousand: exp(1000) is infinite, exp(logit - largest) is not", {1, 4, 0, 1}, 1, 1000}}) {
    const Doubles logits = scaled(size, numbers(N * V, 2));
    const auto g = complex_step(Doubles(N, scale), {logits}, [&, targets = targets](const Tensors& t) {
      std::vector<Complex> losses(N);
      textbook::cross_entropy_forward(losses.data(), t[0].data(), targets.data(), N, V);
      return losses;
    });
    Doubles counted = g[0], before = g[0];
    for (size_t n = 0; n < N; ++n)
      if (targets[n] == kIgnore) {
        textbook::softmax_forward(&counted[n * V], &logits[n * V], V);
        for (size_t k = n * V; k < n * V + V; ++k) before[k] = counted[k] *= scale;
        before[n * V + targets[n]] -= 1;  // in the previous row, after it was multiplied
      }
    const std::string ignored = "a row whose target is kIgnore does not count: all of its gradient is 0";
    std::vector<Mistake> mistakes = {{ignored, counted}, {ignored, before}};
    for (const Formula& f : formulas) mistakes.push_back({f.text, gradient(f, logits, targets, scale)});
    mistakes.push_back({"targets[0] instead of targets[n]",
                        complex_step(Doubles(N, scale), {logits}, [&](const Tensors& t) {
                          std::vector<Complex> losses(N);
                          const std::vector<int> first(N, targets[0]);
                          textbook::cross_entropy_forward(losses.data(), t[0].data(), first.data(), N, V);
                          return losses;
                        })[0]});
    const Guarded in(logits);
    judge.test(title, {{"scale", scale}, {"N", N}, {"V", V}},
               {written("dlogits", {{"n", N}, {"v", V}}, g[0], mistakes)},
               [&, targets = targets, scale = scale](auto out) {
                 textbook::cross_entropy_backward<double>(out[0], in.data(), targets.data(), scale, N, V);
               });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"cross_entropy", backward}};

}  // namespace exercise
