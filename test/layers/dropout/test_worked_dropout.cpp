// The example in layers/dropout/dropout.md.

#include "layers/dropout/dropout.hpp"
#include "layers/kernels/random.hpp"
#include "textbook.hpp"
#include "worked.hpp"

namespace {

constexpr int T = 2, C = 3;

// The bits that layers/dropout/dropout.cpp compares, one element at a time.
uint32_t random_bits(uint32_t counter, uint64_t key) {
  uint32_t h = counter * 0x9e3779b9u + static_cast<uint32_t>(key);
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h ^= static_cast<uint32_t>(key >> 32);
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return (h ^ (h >> 16)) >> 8;
}

Doubles bits_of(const Dropout& dropout, int b, int lines) {
  Doubles bits;
  for (int t = 0; t < lines; ++t)
    for (int c = 0; c < C; ++c)
      bits.push_back(random_bits(c, dropout.key(b, 0, DropoutSite::embedding, t)));
  return bits;
}

// The factors of the elements of B sequences of T lines.
Doubles multipliers(const Dropout& dropout, int B) {
  std::vector<float> ones(B * T * C, 1);
  dropout_apply(ones.data(), dropout, 0, DropoutSite::embedding, B, T, C);
  return widen(ones);
}

}  // namespace

TEST_CASE("layers/dropout/dropout.md is worked out right", "[worked][pages][dropout]") {
  WorkedPage page("dropout/dropout");
  const double p = page.numbers("p")[0];
  const Dropout dropout{.p = float(p), .seed = 1, .step = 0, .first_row = 0};
  const Doubles k = multipliers(dropout, 1);
  page.matches("threshold", Doubles{p * 0x1p24});
  page.matches("bits", bits_of(dropout, 0, T));
  page.matches("k", k);
  Doubles y = page.numbers("x"), dx = page.numbers("dy");
  textbook::dropout_forward(y.data(), k.data(), y.size());
  textbook::dropout_backward(dx.data(), k.data(), dx.size());
  page.matches("y", y);
  page.matches("dx", dx);

  double kept = page.numbers("x₃")[0];
  const double x = kept, scale = 1 / (1 - p);
  textbook::dropout_forward(&kept, &scale, 1);
  const double mean = (1 - p) * kept;
  page.matches("y_kept", Doubles{kept});
  page.matches("mean", Doubles{mean});
  page.matches("variance", Doubles{(1 - p) * kept * kept - mean * mean});
  CHECK((1 - p) * kept * kept - mean * mean == Approx(x * x * p / (1 - p)));

  Dropout later = dropout;
  later.first_row = 1;
  const Doubles both = multipliers(dropout, 2), second = multipliers(later, 1);
  CHECK(Doubles(both.begin() + T * C, both.end()) == second);
  page.matches("bits_row_1", bits_of(dropout, 1, 1));
  page.matches("k_row_1", Doubles(second.begin(), second.begin() + C));
}
