#include "layers/dropout/dropout.hpp"

#include "check.hpp"

namespace {

constexpr int B = 4, T = 50, C = 200;
const Dropout kDropout{.p = .2f, .seed = 11, .step = 12, .first_row = 13};

// The factor of every element: ones passed through dropout.
std::vector<float> mask(const Dropout& dropout, int layer = 3, DropoutSite site = DropoutSite::ffn_out,
                        int rows = B) {
  std::vector<float> m(rows * T * C, 1);
  dropout_apply(m.data(), dropout, layer, site, rows, T, C);
  return m;
}

// The correlation of two masks with p = .2.
double correlation(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < b.size(); ++i) sum += (double(a[i]) - 1) * (double(b[i]) - 1);
  return sum / b.size() / .25;
}

}  // namespace

TEST_CASE("dropout drops a share p and keeps the mean", "[dropout]") {
  for (const float p : {.05f, .2f, .5f, .9f}) {
    Dropout dropout = kDropout;
    dropout.p = p;
    double sum = 0, squares = 0, n = 0;
    for (const float m : mask(dropout)) {
      REQUIRE((m == 0 || m == Approx(1 / (1 - p))));
      sum += double(m), squares += double(m * m), ++n;
    }
    const double mean = sum / n, variance = squares / n - mean * mean;
    const double deviation = std::sqrt(double(p / (1 - p)) / n);  // the mean's, over n independent elements
    CHECK(std::abs(mean - 1) < 4 * deviation);
    CHECK(variance == Approx(p / (1 - p)).epsilon(.05));
  }
}

TEST_CASE("dropout multiplies by its mask, and is the identity at p = 0", "[dropout]") {
  const std::vector<float> x = random_floats(B * T * C, 1), m = mask(kDropout);
  std::vector<float> y = x;
  dropout_apply(y.data(), kDropout, 3, DropoutSite::ffn_out, B, T, C);
  for (size_t i = 0; i < x.size(); ++i) REQUIRE(y[i] == x[i] * m[i]);
  y = x;
  dropout_apply(y.data(), {}, 3, DropoutSite::ffn_out, B, T, C);
  CHECK(same_bits(y, x));
}

TEST_CASE("every step, seed, row, layer and place has its own dropout mask", "[dropout]") {
  const std::vector<float> m = mask(kDropout);
  Dropout step = kDropout, seed = kDropout, row = kDropout;
  step.step++, seed.seed++, row.first_row += 1000;
  const double most = 4 / std::sqrt(m.size());
  for (const auto& other :
       {mask(step), mask(seed), mask(row), mask(kDropout, 4), mask(kDropout, 3, DropoutSite::attention_out)})
    CHECK(std::abs(correlation(m, other)) < most);
  for (const size_t shift : {1, 2, 16, C, T * C})  // neighbors in a line, neighboring lines, neighboring rows
    CHECK(std::abs(correlation(m, std::span(m).subspan(shift))) < most);
}

TEST_CASE("dropout does not depend on how the batch is split into micro-batches", "[dropout]") {
  const std::vector<float> whole = mask(kDropout);
  Dropout later = kDropout;
  later.first_row += 1;
  CHECK(same_bits(
      joined({mask(kDropout, 3, DropoutSite::ffn_out, 1), mask(later, 3, DropoutSite::ffn_out, 3)}), whole));
}

TEST_CASE("dropout of a line can be computed in pieces", "[dropout]") {
  const std::vector<float> x = random_floats(100, 1);
  std::vector<float> whole = x, pieces = x;
  dropout_line(whole.data(), 77, .3f, 0, 100);
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 34}, {34, 64}, {64, 100}})
    dropout_line(pieces.data() + begin, 77, .3f, begin, end - begin);
  CHECK(same_bits(pieces, whole));
}

TEST_CASE("dropout is the same for any number of threads", "[dropout]") {
  check_same_for_all_threads([] { return mask(kDropout); });
}
