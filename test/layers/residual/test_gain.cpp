// A gain without a norm. test_residual.cpp and test_model.cpp test it inside branches and models.

#include "layers/residual/gain.hpp"

#include "textbook.hpp"

namespace {

Gain gain_in(std::vector<float>& weight) { return {weight.data(), weight.size() == 1}; }

}  // namespace

TEST_CASE("gains agree with the textbook, for each channel and for all", "[gain][textbook]") {
  for (const auto& [N, C] : {std::pair{1, 1}, {1, 7}, {17, 33}, {63, 17}, {64, 5}, {130, 200}})
    for (const bool single : {false, true}) {
      std::vector<float> weight = random_floats(single ? 1 : C, 1, 1, .3f), dweight = random_floats(weight.size(), 2);
      const std::vector<float> x = random_floats(N * C, 3), dy = random_floats(N * C, 4);
      Doubles w = widen(weight), want_dw = widen(dweight), want(N * C);
      std::vector<float> y = garbage(N * C), dx = garbage(N * C);
      const std::string size = std::to_string(N) + "x" + std::to_string(C);
      const std::string name = std::string("gain vs textbook/") + (single ? "one " : "") + size;
      const textbook::Gain<double> tp{w.data(), single}, tg{want_dw.data(), single};

      CHECK(gain_forward(y.data(), x.data(), gain_in(weight), N, C) == y.data());
      textbook::gain_forward(want.data(), widen(x).data(), tp, N, C);
      check_close(name + "/y", y, want, 1e-7);
      CHECK(gain_backward(dx.data(), gain_in(dweight), dy.data(), x.data(), gain_in(weight), N, C) == dx.data());
      textbook::gain_backward(want.data(), tg, widen(dy).data(), widen(x).data(), tp, N, C);
      check_close(name + "/dx", dx, want, 1e-7);
      // The gradient of a single gain is a sum of N·C products that cancels: 1.5e-6 (SSE2).
      check_close(name + "/dweight", dweight, want_dw, single ? 3e-6 : 1e-6, std::sqrt(N * C));

      std::vector<float> in_place = dy;
      gain_backward(in_place.data(), gain_in(dweight), in_place.data(), x.data(), gain_in(weight), N, C);
      CHECK(same_bits(in_place, dx));
    }
}

TEST_CASE("an absent gain is the identity and costs nothing", "[gain]") {
  const std::vector<float> x = {1, 2};
  CHECK(gain_forward(nullptr, x.data(), {}, 1, 2) == x.data());
  CHECK(gain_backward(nullptr, {}, x.data(), nullptr, {}, 1, 2) == x.data());
}

TEST_CASE("gains are the same for any number of threads", "[gain]") {
  const int N = 700, C = 33;
  for (const size_t width : {1, C})
    check_same_for_all_threads([&] {
      std::vector<float> weight = random_floats(width, 1), dweight(width), y(N * C), dx(N * C);
      const std::vector<float> x = random_floats(N * C, 2), dy = random_floats(N * C, 3);
      gain_forward(y.data(), x.data(), gain_in(weight), N, C);
      gain_backward(dx.data(), gain_in(dweight), dy.data(), x.data(), gain_in(weight), N, C);
      return joined({y, dx, dweight});
    });
}
