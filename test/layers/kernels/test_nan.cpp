// A NaN stays a NaN: no comparison turns it into a number, so training cannot continue unnoticed.

#include <limits>

#include "check.hpp"
#include "layers/feed_forward/activation.hpp"
#include "layers/cross_entropy/cross_entropy.hpp"
#include "layers/dropout/dropout.hpp"
#include "layers/training/optimizer.hpp"
#include "layers/textbook/adamw.hpp"
#include "layers/textbook/activation.hpp"

namespace {

const float kNaN = std::numeric_limits<float>::quiet_NaN();

// Calls check(x, at) with a NaN at each index in turn: inside full vectors and in the remainder.
template <class Check>
void with_a_nan(int n, Check check) {
  for (int at = 0; at < n; ++at) {
    INFO("NaN at " << at << " of " << n);
    std::vector<float> x = random_floats(n, 1);
    x[at] = kNaN;
    check(x, at);
  }
}

}  // namespace

TEST_CASE("activations pass NaN on, forward and backward", "[nan][activation]") {
  for (const auto& [kind, name] : kActivations) {
    INFO(name);
    if (is_gated(kind)) continue;
    with_a_nan(37, [kind = kind](const std::vector<float>& x, int at) {
      std::vector<float> y(x.size()), dx(x.size());
      activation_forward(y.data(), x.data(), kind, 1, 37);
      activation_backward(dx.data(), random_floats(37, 2).data(), x.data(), kind, 1, 37);
      CHECK(std::isnan(y[at]));
      CHECK(std::isnan(dx[at]));
    });
    const auto [y, slope] = textbook::curve(double(kNaN), kind);
    CHECK(std::isnan(y));
    CHECK(std::isnan(slope));
  }
}

TEST_CASE("a dropped NaN is still a NaN", "[nan][dropout]") {
  with_a_nan(37, [](std::vector<float> x, int at) {
    dropout_line(x.data(), 7, .9f, 0, 37);
    CHECK(std::isnan(x[at]));
  });
}

TEST_CASE("a loss with a NaN among its logits is NaN", "[nan][cross-entropy]") {
  for (const float cap : {0.f, 30.f})
    with_a_nan(37, [=](const std::vector<float>& logits, int) {
      float loss = 0;
      std::vector<float> dlogits(37);
      const int target = 3;
      cross_entropy(&loss, dlogits.data(), logits.data(), &target, 1, 1, 37, {.cap = cap});
      CHECK(std::isnan(loss));
      for (const float d : dlogits) CHECK(std::isnan(d));
    });
}

TEST_CASE("clipping by a norm that is NaN leaves no gradient", "[nan][optimizer]") {
  CHECK(std::isnan(clip_factor(kNaN, 1)));
  CHECK(std::isnan(textbook::clip_factor<double>(kNaN, 1)));
}
