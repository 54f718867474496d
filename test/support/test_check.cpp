// Tests of the error criterion itself: it accepts rounding and rejects everything coarser.

#include "check.hpp"

#include <limits>
#include <stdexcept>

#include "reference.hpp"

namespace {

constexpr double kTolerance = 1e-6;

bool accepts(const std::vector<float>& got, const std::vector<double>& want, double s = 0) {
  return relative_error(got, want, s) <= kTolerance;
}

}  // namespace

TEST_CASE("the checker accepts rounding and nothing coarser", "[check]") {
  const std::vector<float> x = random_floats(999, 1);
  CHECK(accepts(x, widen(x)));
  CHECK(accepts(x, times(1 + 0.9e-6, widen(x))));
  CHECK_FALSE(accepts(x, times(1 + 1.1e-6, widen(x))));
  CHECK(relative_error(x, times(1 / 1.5, widen(x))) == Approx(.5));
  CHECK(relative_error(x, times(-1, widen(x))) == Approx(2));
}

TEST_CASE("the checker rejects what is wrong", "[check]") {
  const std::vector<float> x = random_floats(1000, 1), y = random_floats(1000, 2);
  const std::vector<double> want = widen(x);
  CHECK_FALSE(accepts(std::vector<float>(1000), want));  // nothing was computed
  CHECK_FALSE(accepts(y, want));                         // two tensors swapped
  CHECK_FALSE(accepts(garbage(1000), want));
  for (const size_t at : {0, 500, 999}) {
    std::vector<float> one = x;
    one[at] *= 1.001f;
    CHECK_FALSE(accepts(one, want));
    one[at] = 0;
    CHECK_FALSE(accepts(one, want));
    std::swap(one[at] = x[at], one[(at + 1) % 1000]);
    CHECK_FALSE(accepts(one, want));
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      one = x;
      one[at] = bad;
      CHECK_FALSE(accepts(one, want));
      CHECK_FALSE(accepts(one, want, 1e30));
      CHECK_FALSE(accepts(one, widen(one)));  // not even if it is expected
    }
  }
  CHECK_FALSE(accepts(std::vector<float>(x.begin(), x.end() - 1), want));
  CHECK_FALSE(accepts({}, {}));
  CHECK_FALSE(accepts(x, want, std::numeric_limits<double>::quiet_NaN()));
}

TEST_CASE("a gradient that nearly cancels is measured by a thousandth of its uncancelled terms", "[check]") {
  const std::vector<float> got = {2e-8f};
  CHECK_FALSE(accepts(got, {1e-8}));
  CHECK_FALSE(accepts(got, {1e-8}, 1));
  CHECK(accepts(got, {1e-8}, 100));
  CHECK_FALSE(accepts({1e-3f}, {0}));  // an expected zero is zero, or small compared with its terms
  CHECK_FALSE(accepts({1e-3f}, {0}, 1));
  CHECK(accepts({0}, {0}));
  CHECK(accepts({1e-10f}, {0}, 1));
}

TEST_CASE("bits are compared as bits", "[check]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(same_bits(std::vector{1.f, nan}, std::vector{1.f, nan}));
  CHECK_FALSE(same_bits(std::vector{0.f}, std::vector{-0.f}));
  CHECK_FALSE(same_bits(std::vector{1.f}, std::vector{1.f, 1.f}));
  CHECK_FALSE(same_bits(std::vector{1.f}, std::vector{std::nextafter(1.f, 2.f)}));
}

TEST_CASE("a reference is read, or an exception says why not", "[check]") {
  const Reference r("linear", "17x33x65-bias");
  CHECK(r.integer("I") == 33);
  CHECK(r.scale("dbias") > 0);
  CHECK(r.has("x"));
  CHECK_FALSE(r.has("z"));
  CHECK(r.floats("x").size() == 17 * 33);
  CHECK(r.doubles("y").size() == 17 * 65);
  CHECK_THROWS_AS(r.number("J"), std::runtime_error);
  CHECK_THROWS_AS(r.scale("y"), std::runtime_error);
  CHECK_THROWS_AS(r.floats("z"), std::runtime_error);
  CHECK_THROWS_AS(r.floats("y"), std::runtime_error);  // holds doubles
  CHECK_THROWS_AS(r.ints("x"), std::runtime_error);
  CHECK_THROWS_AS(Reference("linear", "17x33"), std::runtime_error);
}
