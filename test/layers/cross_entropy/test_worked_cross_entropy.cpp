// The example in layers/cross_entropy/cross_entropy.md.

#include <numeric>

#include "textbook.hpp"
#include "worked.hpp"

namespace {

constexpr int N = 3, C = 2, V = 3;

double sum_of(const Doubles& x) { return std::accumulate(x.begin(), x.end(), 0.); }

double loss_of(const Doubles& logits, int target) {
  double loss = 0;
  textbook::cross_entropy_forward(&loss, logits.data(), &target, 1, logits.size());
  return loss;
}

// The gradient of one row's loss: softmax − one-hot.
Doubles gradient_of(const Doubles& logits, int target) {
  Doubles d(logits.size());
  textbook::cross_entropy_backward(d.data(), logits.data(), &target, 1., 1, d.size());
  return d;
}

}  // namespace

TEST_CASE("layers/cross_entropy/cross_entropy.md is worked out right", "[worked][pages][cross_entropy]") {
  WorkedPage page("cross_entropy/cross_entropy");
  const Doubles x = page.numbers("x"), weight = page.numbers("weight");
  const std::vector<int> targets = page.integers("target");
  Doubles logits(N * V);
  textbook::linear_forward<double>(logits.data(), x.data(), weight.data(), nullptr, {N, C, V});
  page.matches("logits", logits);

  Doubles top, below, exponential, sums, logsum, logsumexp, p;
  for (int n = 0; n < N; ++n) {
    if (targets[n] == kIgnore) continue;
    const double* row = &logits[n * V];
    top.push_back(*std::max_element(row, row + V));
    sums.push_back(0);
    for (int v = 0; v < V; ++v) {
      below.push_back(row[v] - top.back());
      exponential.push_back(std::exp(below.back()));
      sums.back() += exponential.back();
    }
    for (int v = 0; v < V; ++v) p.push_back(exponential[p.size()] / sums.back());
    logsum.push_back(std::log(sums.back()));
    logsumexp.push_back(top.back() + logsum.back());
  }
  page.matches("top", top);
  page.matches("below", below);
  page.matches("exponential", exponential);
  page.matches("sum", sums);
  page.matches("logsum", logsum);
  page.matches("logsumexp", logsumexp);
  page.matches("p", p);

  Doubles losses(N), dlogits(N * V), dx(N * C), dweight(V * C), dbias(V);
  textbook::cross_entropy_forward(losses.data(), logits.data(), targets.data(), N, V);
  const double counted = N - std::count(targets.begin(), targets.end(), kIgnore), scale = 1 / counted;
  const double mean = scale * sum_of(losses);
  page.matches("losses", losses);
  page.matches("counted", Doubles{counted});
  page.matches("scale", Doubles{scale});
  page.matches("mean", Doubles{mean});
  page.matches("perplexity", Doubles{std::exp(mean)});
  page.matches("uniform", Doubles{loss_of(Doubles(V), 0)});

  textbook::cross_entropy_backward(dlogits.data(), logits.data(), targets.data(), scale, N, V);
  textbook::linear_backward(dx.data(), dweight.data(), dbias.data(), dlogits.data(), x.data(), weight.data(),
                            {N, C, V});
  page.matches("dlogits", dlogits);
  page.matches("dx", dx);
  page.matches("dweight", dweight);
  page.matches("dbias", dbias);

  const double cap = page.numbers("cap")[0];
  const Doubles u = page.numbers("u"), ones(V, 1);
  CHECK(u == Doubles(logits.begin(), logits.begin() + V));
  Doubles z(V), slope(V), du(V);
  textbook::soft_cap_forward(z.data(), u.data(), cap, V);
  textbook::soft_cap_backward(slope.data(), ones.data(), u.data(), cap, V);
  const Doubles dz = gradient_of(z, targets[0]);
  textbook::soft_cap_backward(du.data(), dz.data(), u.data(), cap, V);
  page.matches("z", z);
  page.matches("slope", slope);
  page.matches("capped_loss", Doubles{loss_of(z, targets[0])});
  page.matches("dz", dz);
  page.matches("du", du);

  Doubles padded = u;
  padded.push_back(0);
  page.matches("padded_loss", Doubles{loss_of(padded, targets[0])});
  page.matches("padded_p", Doubles{gradient_of(padded, targets[0])[V]});
  page.matches("mean_of_means", Doubles{(2. / 1 + 3. / 3) / 2});
  page.matches("mean_of_all", Doubles{(2. + 3.) / 4});
}
