#include "layers/kernels/random.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "check.hpp"

// The numbers for seed 1234567 are from Rosetta Code, the number for seed 0 from the C code of SplitMix64's authors.
TEST_CASE("bits are the outputs of SplitMix64", "[random]") {
  CHECK(rng::bits(0, 0) == 0xe220a8397b1dcdafull);
  const uint64_t outputs[] = {6457827717110365317ull, 3203168211198807973ull, 9817491932198370423ull,
                              4593380528125082431ull, 16408922859458223821ull};
  for (uint64_t i = 0; i < 5; ++i) CHECK(rng::bits(1234567, i) == outputs[i]);
}

TEST_CASE("words have FNV-1a's hash, and different keys differ", "[random]") {
  CHECK(rng::word("") == 0xcbf29ce484222325ull);  // FNV-1a's basis, and its published hash of "a"
  CHECK(rng::word("a") == 0xaf63dc4c8601ec8cull);
  const std::vector<uint64_t> keys = {rng::key({}),     rng::key({0}),    rng::key({0, 0}), rng::key({1}),
                                      rng::key({1, 2}), rng::key({2, 1}), rng::key({3}),    rng::key({1, 2, 0})};
  for (size_t i = 0; i < keys.size(); ++i)
    for (size_t j = 0; j < i; ++j) CHECK(keys[i] != keys[j]);
}

TEST_CASE("uniform numbers fill [0, 1) evenly", "[random]") {
  constexpr int n = 1 << 16, kBins = 16;
  int counts[kBins] = {};
  for (int i = 0; i < n; ++i) {
    const double x = rng::uniform(1, i);
    REQUIRE(x >= 0);
    REQUIRE(x < 1);
    ++counts[static_cast<int>(x * kBins)];
  }
  for (const int count : counts) CHECK(std::abs(count - n / kBins) < 4 * 62);  // four standard deviations
}

TEST_CASE("rng::below stays below its limit and reaches every number", "[random]") {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  uint64_t largest = 0;
  int counts[7] = {};
  for (int i = 0; i < 7000; ++i) {
    REQUIRE(rng::below(1, 2, i) == 0);
    REQUIRE(rng::below(kMost, 2, i) < kMost);
    largest = std::max(largest, rng::below(kMost, 2, i));
    const uint64_t seventh = rng::below(7, 2, i);
    REQUIRE(seventh < 7);
    ++counts[seventh];
  }
  CHECK(largest > kMost / 1000 * 999);
  for (const int count : counts) CHECK(std::abs(count - 1000) < 4 * 30);
}

TEST_CASE("normal numbers have mean 0, variance 1 and the tails of a normal distribution", "[random]") {
  constexpr int n = 1 << 18;
  double first = 0, second = 0, fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double x = rng::normal(3, i);
    first += x, second += x * x, fourth += x * x * x * x;
  }
  CHECK(std::abs(first / n) < 4 * .00195);       // four standard deviations each: √(1/n),
  CHECK(std::abs(second / n - 1) < 4 * .00276);  // √(2/n)
  CHECK(std::abs(fourth / n - 3) < 4 * .0191);   // and √(96/n)
}
