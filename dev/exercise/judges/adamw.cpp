#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

struct Step {  // the inputs of a step except for gradients, and the tensors it changes
  double beta1 = .9, beta2 = .95, eps = 1e-8, decay = 0, lr = .01, factor = 1;
  int t = 1;
  Doubles w = numbers(5, 1), m = Doubles(5), v = Doubles(5);
  Doubles gradients = {.53, -1.2, .02, -3e-6, 1e-9};  // eps is negligible for the first and large for the last
};

Step after(Step s) {
  textbook::answer::adamw_step(s.w.data(), s.m.data(), s.v.data(), s.gradients.data(), s.w.size(),
                               {s.beta1, s.beta2, s.eps, s.decay}, {s.lr, s.factor, s.t});
  return s;
}

// The weights after step `s` with a wrong order or a wrong formula.
std::vector<Mistake> mistakes(const Step& s) {
  Step uncorrected = s, first = s, undecayed = s, unclipped = s;
  Step coupled = s, inside = s, unsquared = s, late = s, steep = s;
  uncorrected.t = 1 << 20, first.t = 1, undecayed.decay = 0, unclipped.factor = 1;
  const Step right = after(s);
  const double correction1 = 1 - std::pow(s.beta1, s.t), correction2 = 1 - std::pow(s.beta2, s.t);
  for (size_t i = 0; i < s.w.size(); ++i) {
    const double mean = right.m[i] / correction1, square = right.v[i] / correction2, decay = s.lr * s.decay * s.w[i];
    inside.w[i] = s.w[i] - decay - s.lr * mean / std::sqrt(square + s.eps);
    unsquared.w[i] = s.w[i] - decay - s.lr * mean / (square + s.eps);
    steep.w[i] = s.w[i] - decay / s.lr - s.lr * mean / (std::sqrt(square) + s.eps);
    late.w[i] = (s.w[i] - s.lr * mean / (std::sqrt(square) + s.eps)) * (1 - s.lr * s.decay);
    const double g = s.gradients[i] * s.factor + s.decay * s.w[i];
    const double m = s.beta1 * s.m[i] + (1 - s.beta1) * g, v = s.beta2 * s.v[i] + (1 - s.beta2) * g * g;
    coupled.w[i] = s.w[i] - s.lr * m / correction1 / (std::sqrt(v / correction2) + s.eps);
  }
  return {{"m and v are not corrected for having begun at 0: / (1 - betaᵗ)", after(uncorrected).w},
          {"the correction is always the first step's: betaᵗ, not beta", after(first).w},
          {"weight decay is missing", after(undecayed).w},
          {"gradient_factor is missing", after(unclipped).w},
          {"weight decay went into the gradient: that is Adam with L2, not AdamW", coupled.w},
          {"eps is inside of the root", inside.w},
          {"the root of v is missing", unsquared.w},
          {"weight decay is not multiplied by lr", steep.w},
          {"decay comes after the step, and shrinks that too: it comes first", late.w}};
}

// The mistakes in m or v. Its beta is `beta`, the other one is `other`. `old` is its value before the step, and `fresh`
// the gradient or its square.
std::vector<Mistake> of_average(const std::string& beta, double kept, double other, const Doubles& old,
                                const Doubles& fresh) {
  const auto average = [&](double before, double now) {
    Doubles result;
    for (size_t i = 0; i < old.size(); ++i) result.push_back(before * old[i] + now * fresh[i]);
    return result;
  };
  return {{beta + " and 1 - " + beta + " are the wrong way round", average(1 - kept, kept)},
          {"that is with the other beta", average(other, 1 - other)},
          {"the new one is to be multiplied by 1 - " + beta, average(kept, 1)},
          {"the old one is to be multiplied by " + beta, average(1, 1 - kept)},
          {"what stood there before is lost", average(0, 1 - kept)}};
}

void step(Judge& judge) {
  Step s;
  const auto test = [&](const char* title) {
    const Step want = after(s);
    const size_t n = s.w.size();
    const Guarded g(s.gradients);
    Step unclipped = s;
    unclipped.factor = 1;
    unclipped = after(unclipped);
    const auto output = [&](const char* name, const Doubles& from, const Doubles& to, std::vector<Mistake> known) {
      return in_place(name, {{"i", n}}, from, to, known);
    };
    const std::string factor = "gradient_factor is missing";
    Doubles scaled_gradients = scaled(s.factor, s.gradients), squares = scaled_gradients;
    for (double& g : squares) g *= g;
    std::vector<Mistake> of_m = of_average("beta1", s.beta1, s.beta2, s.m, scaled_gradients),
                         of_v = of_average("beta2", s.beta2, s.beta1, s.v, squares),
                         plain = of_average("beta2", s.beta2, s.beta2, s.v, scaled_gradients);
    of_m.push_back({factor, unclipped.m}), of_v.push_back({factor, unclipped.v});
    of_v.push_back({"v is of the square of the gradient", plain[1].value});
    judge.test(title, {{"2", 2}},
               {output("m", s.m, want.m, of_m), output("v", s.v, want.v, of_v),
                output("weights", s.w, want.w, mistakes(s))},
               [&](auto out) {
                 textbook::adamw_step<double>(out[2], out[0], out[1], g.data(), n, {s.beta1, s.beta2, s.eps, s.decay},
                                              {s.lr, s.factor, s.t});
               });
    s.w = want.w, s.m = want.m, s.v = want.v, s.gradients = scaled(1.5, s.gradients), ++s.t;
  };
  test("the first step, without decay · n=5");
  test("the second, without decay");
  s.decay = .5;
  test("the third, with decay");
  s.factor = .3;
  test("the fourth, with clipping");
}

}  // namespace

const std::vector<Exercise> exercises = {{"adamw", step}};

}  // namespace exercise
