#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

void backward(Judge& judge) {
  struct Case {
    const char* title;
    std::vector<int> targets;
    double scale, size;  // of the logits
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
    Doubles untargeted = g[0], added = g[0], unscaled = g[0], counted = g[0], before = g[0];
    for (size_t n = 0; n < N; ++n)
      if (targets[n] == kIgnore) {
        textbook::softmax_forward(&counted[n * V], &logits[n * V], V);
        for (size_t k = n * V; k < n * V + V; ++k) before[k] = counted[k] *= scale;
        before[n * V + targets[n]] -= 1;  // in the row before, which has been multiplied
      } else {
        untargeted[n * V + targets[n]] += scale;
        added[n * V + targets[n]] += 2 * scale;
        unscaled[n * V + targets[n]] += scale - 1;
      }
    const std::string ignored = "a row whose target is kIgnore does not count: all of its gradient is 0";
    const Guarded in(logits);
    judge.test(title, {{"scale", scale}, {"N", N}, {"V", V}},
               {written("dlogits", {{"n", N}, {"v", V}}, g[0],
                        {{"it is the softmax alone: - logits[n,target] is missing", untargeted},
                         {"the 1 at the target is added, and is to be subtracted", added},
                         {ignored, counted},
                         {ignored, before},
                         {"the 1 at the target is not multiplied by scale", unscaled}})},
               [&, targets = targets, scale = scale](auto out) {
                 textbook::cross_entropy_backward<double>(out[0], in.data(), targets.data(), scale, N, V);
               });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"cross_entropy", backward}};

}  // namespace exercise
