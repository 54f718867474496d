#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

// Frequent mistakes in dx[i]. Sums are over j, of p[j]·dp[j] unless stated otherwise.
std::vector<Mistake> mistakes(const Doubles& p, const Doubles& dp) {
  double sum = 0, plain = 0, squares = 0;
  for (size_t j = 0; j < p.size(); ++j) sum += p[j] * dp[j], plain += dp[j], squares += p[j] * p[j] * dp[j];
  const auto by_number = [&](auto f) {
    Doubles dx;
    for (size_t i = 0; i < p.size(); ++i) dx.push_back(f(p[i], dp[i]));
    return dx;
  };
  const std::string weighted = "the sum over j is of p[j]·dp[j]: each dp[j] weighs what p[j] is";
  return {
      {"the other p[j], which x[i] makes smaller, are missing", by_number([](double p, double dp) { return p * dp; })},
      {"only p[i] itself is there: x[i] makes the other p[j] smaller",
       by_number([](double p, double dp) { return p * (1 - p) * dp; })},
      {"only the others are there: p[i] itself, which x[i] makes larger, is missing",
       by_number([&](double p, double dp) { return -p * (sum - p * dp); })},
      {"the sum over j is taken away, not added", by_number([&](double p, double dp) { return p * (dp + sum); })},
      {"p[i] stands before the bracket: the sum is multiplied by it, too",
       by_number([&](double p, double dp) { return p * dp - sum; })},
      {"p[i] before the bracket is missing", by_number([&](double, double dp) { return dp - sum; })},
      {weighted, by_number([&](double p, double dp) { return p * (dp - plain); })},
      {weighted, by_number([n = p.size(), plain](double p, double dp) { return p * (dp - plain / n); })},
      {"∂p[j]/∂x[i] has p[i], not p[j], in its bracket",
       by_number([&](double p, double dp) { return p * dp - squares; })}};
}

void backward(Judge& judge) {
  for (const size_t n : {2, 5}) {
    const Doubles dp = numbers(n, 1), x = numbers(n, 2);
    Doubles p(n);
    textbook::softmax_forward(p.data(), x.data(), n);
    const auto g = complex_step(dp, {x}, [&](const Tensors& t) {
      std::vector<Complex> y(n);
      textbook::softmax_forward(y.data(), t[0].data(), n);
      return y;
    });
    const Guarded in_dp(dp), in_p(p);
    const std::string title = "n=" + std::to_string(n);
    judge.test(title, {{"n", double(n)}}, {written("dx", {{"i", n}}, g[0], mistakes(p, dp))},
               [&](auto out) { textbook::softmax_backward<double>(out[0], in_dp.data(), in_p.data(), n); });
    judge.test(title + ", dx is dp", {}, {shared("dx", "dp", {{"i", n}}, dp, g[0])},
               [&](auto out) { textbook::softmax_backward<double>(out[0], out[0], in_p.data(), n); });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"softmax", backward}};

}  // namespace exercise
