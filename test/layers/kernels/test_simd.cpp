// The functions of layers/kernels/simd.hpp over their whole range, against the standard library in double. Buffers have
// the exact size, so that the address sanitizer sees accesses beyond their end.

#include "layers/kernels/simd.hpp"

#include <cfenv>
#include <limits>
#include <numeric>

#include "check.hpp"
#include "layers/kernels/gemm.hpp"

using simd::Vec;
using simd::W;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kNormal = std::numeric_limits<float>::min();          // smaller numbers are subnormal
constexpr float kSpacing = std::numeric_limits<float>::denorm_min();  // the distance between subnormals

template <class F>
float lane(F f, float x) {
  return f(simd::all(x))[W - 1];
}

// Calls check(x, f(x)) for every 257th float from `low` to `high`.
template <class F, class Check>
void walk(F f, float low, float high, Check check) {
  const auto number = [](uint32_t i) {  // the i-th float in ascending order
    const uint32_t bits = i >= 0x80000000u ? i - 0x80000000u : 0xffffffffu - i;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  };
  Vec x;
  int lanes = 0;
  for (uint64_t i = 0; i <= 0xffffffffu; i += 257) {
    const float next = number(static_cast<uint32_t>(i));
    if (!(next >= low && next <= high)) continue;
    x[lanes++] = next;
    if (lanes < W) continue;
    const Vec y = f(x);
    for (int j = 0; j < W; ++j) check(x[j], y[j]);
    lanes = 0;
  }
}

// The largest relative error. A subnormal result may also be off by half its spacing.
template <class F, class Exact>
double worst_error(F f, Exact exact, float low, float high) {
  double worst = 0;
  walk(f, low, high, [&](float x, float y) {
    const double want = exact(double(x)), off = std::fabs(double(y) - want);
    const double error = want < double(kNormal) ? std::max(0., off - .501 * double(kSpacing)) / want : off / want;
    if (!(error <= worst)) worst = error;
  });
  return worst;
}

Vec exp_of(Vec x) { return simd::exp(x); }
Vec sigmoid_of(Vec x) { return simd::sigmoid(x); }
Vec erfc_of(Vec x) { return simd::erfc(x); }
Vec tanh_of(Vec x) { return simd::tanh(x); }

}  // namespace

TEST_CASE("tanh has a relative error below 2e-7, also near 0", "[simd][long]") {
  const auto exact = [](double x) { return std::tanh(x); };
  const auto mirrored = [](Vec x) { return -simd::tanh(-x); };
  check_error("simd tanh", worst_error(tanh_of, exact, 1e-30f, kLargest), 2e-7);  // measured: 1.4e-7
  check_error("simd tanh/below 0", worst_error(mirrored, exact, 1e-30f, kLargest), 2e-7);
  CHECK(lane(tanh_of, 0) == 0);
  CHECK(lane(tanh_of, kInfinity) == 1);
  CHECK(lane(tanh_of, -kInfinity) == -1);
  CHECK(std::isnan(lane(tanh_of, kNaN)));
  CHECK(simd::counting()[W - 1] == W - 1);
}

TEST_CASE("exp has a relative error below 2e-7 if the result is a float", "[simd]") {
  const auto exact = [](double x) { return std::exp(x); };
  check_error("simd exp/normal results", worst_error(exp_of, exact, -87.33f, 88.72f), 2e-7);  // measured: 7.4e-8
  check_error("simd exp/subnormal results", worst_error(exp_of, exact, -103.2f, -87.33f), 2e-7);
  CHECK(lane(exp_of, 0) == 1);
  CHECK(lane(exp_of, -0.f) == 1);
  CHECK(lane(exp_of, 88.73f) == kInfinity);
  CHECK(lane(exp_of, kLargest) == kInfinity);
  CHECK(lane(exp_of, kInfinity) == kInfinity);
  CHECK(lane(exp_of, -104) == 0);
  CHECK(lane(exp_of, -kLargest) == 0);
  CHECK(lane(exp_of, -kInfinity) == 0);
  CHECK(std::isnan(lane(exp_of, kNaN)));
  CHECK(std::isnan(lane(exp_of, -kNaN)));
}

// Intel's processors take over 100 cycles for a product that becomes subnormal. Many vectors of attention's scores have
// a lane of −∞, for a key that a query does not see. The processor's flags tell of such products.
TEST_CASE("exp of lanes below -104 makes no product that becomes subnormal", "[simd]") {
  for (const float x : {-kInfinity, -kLargest, -1000.f, -104.1f}) {
    INFO(x);
    Vec v = simd::all(-1);
    v[0] = x;
    std::feclearexcept(FE_ALL_EXCEPT);
    volatile float y = exp_of(v)[0];
    CHECK_FALSE(std::fetestexcept(FE_UNDERFLOW));
    CHECK(y == 0);
  }
}

TEST_CASE("exp_normal is exp where the result is a normal float", "[simd]") {
  walk(simd::exp_normal, -87.3f, 88.f, [](float x, float y) {
    if (y != lane(exp_of, x)) FAIL_CHECK("exp_normal of " << x << " is " << y);
  });
  CHECK(lane(simd::exp_normal, 0) == 1);
  CHECK(std::isnan(lane(simd::exp_normal, kNaN)));
  CHECK(std::isnan(lane(simd::exp_normal, -kNaN)));
}

TEST_CASE("sigmoid", "[simd][long]") {
  const auto exact = [](double x) { return 1 / (1 + std::exp(-x)); };
  check_error("simd sigmoid/all", worst_error(sigmoid_of, exact, -87.33f, kLargest), 3e-7);  // measured: 1.4e-7
  walk(sigmoid_of, -kLargest, -87.33f, [](float x, float y) {
    if (!(y >= 0 && y <= 2 * kNormal)) FAIL_CHECK("sigmoid of " << x << " is " << y);
  });
  CHECK(lane(sigmoid_of, kInfinity) == 1);
  CHECK(lane(sigmoid_of, -kInfinity) == 0);
  CHECK(std::isnan(lane(sigmoid_of, kNaN)));
}

// erfc is used in x·erfc(−x/√2)/2, so its relative error may grow with x² where it is nearly zero.
TEST_CASE("erfc", "[simd][long]") {
  const auto exact = [](double x) { return std::erfc(x); };
  check_error("simd erfc below 1/all", worst_error(erfc_of, exact, -kLargest, 1), 6e-7);  // measured: 4.0e-7
  double worst = 0;
  walk(erfc_of, 1, 9.19f, [&](float x, float y) {
    worst = std::max(worst, std::fabs(double(y) / exact(double(x)) - 1) / (1 + double(x) * double(x)));
  });
  check_error("simd erfc above 1/over 1 + x²", worst, 4e-7);  // measured: 1.7e-7
  walk(erfc_of, 9.19f, kLargest, [](float x, float y) {
    if (!(y >= 0 && y <= 2 * kNormal)) FAIL_CHECK("erfc of " << x << " is " << y);
  });
  CHECK(lane(erfc_of, kInfinity) == 0);
  CHECK(lane(erfc_of, -kInfinity) == 2);
  CHECK(std::isnan(lane(erfc_of, kNaN)));
}

TEST_CASE("erf has a relative error below 4e-7, also near 0, and erf and tanh are odd", "[simd][long]") {
  const auto erf_of = [](Vec x) { return simd::erf(x); };
  const auto odd = [](auto f, float x) { return lane(f, x) == -lane(f, -x); };
  const float tiny = 1e-30f;  // its square is 0
  check_error("simd erf/all",
              worst_error(erf_of, [](double x) { return std::erf(x); }, tiny, kLargest), 4e-7);  // measured: 1.8e-7
  for (const float x : {0.f, tiny, .3f, .62f, .63f, .99f, 1.01f, 3.f, kLargest, kInfinity}) {
    CHECK(odd(erf_of, x));
    CHECK(odd(tanh_of, x));
  }
  CHECK(lane(erf_of, kInfinity) == 1);
  CHECK(lane(erf_of, -kInfinity) == -1);
  CHECK(std::isnan(lane(erf_of, kNaN)));
}

TEST_CASE("sweep visits every element once and nothing else", "[simd]") {
  for (int n = 0; n <= 3 * W + 1; ++n) {
    const std::vector<float> x = random_floats(n, 1);
    std::vector<float> y = garbage(n);
    int next = 0;
    simd::sweep(n, [&](int i, int lanes) {
      CHECK(i == next);
      CHECK((lanes == W || i + lanes == n));
      next = i + lanes;
      const Vec v = simd::load(x.data() + i, lanes, 7);
      for (int j = lanes; j < W; ++j) CHECK(v[j] == 7);
      simd::store(y.data() + i, v, lanes);
    });
    CHECK(next == n);
    CHECK(x == y);
  }
}

TEST_CASE("a store of some lanes does not change the others", "[simd]") {
  for (int lanes = 1; lanes <= W; ++lanes) {
    std::vector<float> y(W, 3);
    simd::store(y.data(), simd::all(5), lanes);
    for (int i = 0; i < W; ++i) CHECK(y[i] == (i < lanes ? 5 : 3));
  }
}

TEST_CASE("sum, max and min of lanes", "[simd]") {
  std::vector<float> x(W);
  std::iota(x.begin(), x.end(), 1.f);
  for (int top = 0; top < W; ++top) {
    std::vector<float> y = x;
    y[top] = 100;
    CHECK(simd::max(simd::load(y.data())) == 100);
    CHECK(simd::sum(simd::load(y.data())) == W * (W + 1) / 2 - (top + 1) + 100);
  }
  CHECK(simd::max(simd::all(-3)) == -3);
  const Vec a = simd::load(x.data()), low = simd::min(a, simd::all(2)), high = simd::max(a, simd::all(2));
  for (int i = 0; i < W; ++i) {
    CHECK(low[i] == std::min(x[i], 2.f));
    CHECK(high[i] == std::max(x[i], 2.f));
  }
}

// Source and target have columns outside of the matrix. In the target, transpose() overwrites them up to a whole
// vector.
TEST_CASE("transpose turns rows into columns and fills the last vector with zeros", "[simd]") {
  for (const int rows : {1, 5, 16, 37})
    for (const int columns : {1, 8, 29, 64}) {
      constexpr int kFrom = 70, kTo = 64;
      const std::vector<float> from = random_floats(static_cast<size_t>(rows) * kFrom, 1);
      const std::vector<float> before = random_floats(64 * kTo, 2);
      std::vector<float> to = before;
      transpose(to.data(), kTo, from.data(), kFrom, rows, columns);
      const int end = (rows + W - 1) / W * W;
      for (int j = 0; j < 64; ++j)
        for (int i = 0; i < kTo; ++i) {
          const bool inside = j < columns && i < end;
          REQUIRE(to[j * kTo + i] == (!inside ? before[j * kTo + i] : i < rows ? from[i * kFrom + j] : 0));
        }
    }
}
