#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

void backward(Judge& judge) {
  const size_t n = 7;
  const Doubles dy = numbers(n, 1), x = numbers(n, 2), multiplier = {1.25, 0, 1.25, 1.25, 0, 1.25, 1.25};
  const auto g = complex_step(dy, {x}, [&](const Tensors& t) {
    const std::vector<Complex> m(multiplier.begin(), multiplier.end());
    std::vector<Complex> y = t[0];
    textbook::dropout_forward(y.data(), m.data(), n);
    return y;
  });
  Doubles unscaled = dy;
  for (size_t i = 0; i < n; ++i) unscaled[i] *= multiplier[i] != 0;
  const Guarded in(multiplier);
  judge.test("p = 0.2 · n=7", {},
             {in_place("dx", {{"i", n}}, dy, g[0], {{"what is kept is multiplied by 1/(1 - p), too", unscaled}})},
             [&](auto out) { textbook::dropout_backward<double>(out[0], in.data(), n); });
}

}  // namespace

const std::vector<Exercise> exercises = {{"dropout", backward}};

}  // namespace exercise
