// The example in layers/training/optimizer.md.

#include "textbook.hpp"
#include "worked.hpp"

namespace {

// A tensor's weights and moments.
struct Tensor {
  Doubles w, m, v;
  explicit Tensor(const Doubles& start) : w(start), m(w.size()), v(w.size()) {}
};

struct Given {
  double lr, beta1, beta2, eps, clip;
  explicit Given(WorkedPage& page)
      : lr(page.numbers("lr")[0]), beta1(page.numbers("beta1")[0]), beta2(page.numbers("beta2")[0]),
        eps(page.numbers("eps")[0]), clip(page.numbers("clip")[0]) {}

  void step(Tensor& tensor, const Doubles& gradient, double decay, double factor, int t) const {
    textbook::adamw_step(tensor.w.data(), tensor.m.data(), tensor.v.data(), gradient.data(), gradient.size(),
                         {beta1, beta2, eps, decay}, {lr, factor, t});
  }
};

// Returns the size of the last of many steps, in learning rates. The last gradient is 1. Earlier gradients are zero, or
// grow by the factor `growth`.
double last_step(double beta1, double beta2, double growth) {
  constexpr int kSteps = 16000;
  double w = 0, m = 0, v = 0, before = 0;
  for (int t = 1; t <= kSteps; ++t) {
    const double g = t == kSteps ? 1 : growth > 0 ? std::pow(growth, t - kSteps) : 0;
    before = w;
    textbook::adamw_step(&w, &m, &v, &g, 1, {beta1, beta2, 1e-150, 0.}, {1., 1., t});
  }
  return before - w;
}

}  // namespace

TEST_CASE("layers/training/optimizer.md is worked out right", "[worked][pages][optimizer]") {
  WorkedPage page("training/optimizer");
  const Given given(page);
  const double decay = page.numbers("decay")[0];
  Tensor w(page.numbers("w")), gain(page.numbers("gain"));
  for (int t = 1; t <= 2; ++t) {
    const std::string step = t == 1 ? "" : "₂";
    const Doubles dw = page.numbers("dw" + step), dgain = page.numbers("dgain" + step);
    Doubles all = dw;
    all.insert(all.end(), dgain.begin(), dgain.end());
    const double norm = textbook::gradient_norm(all.data(), all.size());
    const double factor = textbook::clip_factor(norm, given.clip);
    page.matches("norm" + step, Doubles{norm});
    page.matches("factor" + step, Doubles{factor});
    given.step(w, dw, decay, factor, t);
    given.step(gain, dgain, 0, factor, t);

    Doubles g, mean, root, ratio;
    for (size_t i = 0; i < dw.size(); ++i) {
      g.push_back(dw[i] * factor);
      mean.push_back(w.m[i] / (1 - std::pow(given.beta1, t)));
      root.push_back(std::sqrt(w.v[i] / (1 - std::pow(given.beta2, t))));
      ratio.push_back(mean[i] / (root[i] + given.eps));
    }
    if (t == 1) page.matches("g", g);
    page.matches("m" + step, w.m);
    page.matches("v" + step, w.v);
    page.matches("m̂" + step, mean);
    page.matches("root" + step, root);
    page.matches("ratio" + step, ratio);
    page.matches("w" + std::string(t == 1 ? "₁" : "₂"), w.w);
    page.matches("gain" + std::string(t == 1 ? "₁" : "₂"), gain.w);
  }

  Doubles longest, after_a_rest;
  for (const double beta2 : page.numbers("betas")) {
    longest.push_back(last_step(given.beta1, beta2, beta2 / given.beta1));
    after_a_rest.push_back(last_step(given.beta1, beta2, 0));
  }
  page.matches("longest", longest);
  page.matches("after_a_rest", after_a_rest);

  Doubles rates;
  for (const int step : page.integers("step")) rates.push_back(LearningRate{}.at(step, 3000));
  page.matches("rate", rates);
}
