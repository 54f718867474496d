#include "data/cost.hpp"

#include "check.hpp"
#include "data/ceiling.hpp"

// By hand: 12 blocks of 12 C² weights, V·C of the classifier, and two products with the (T + 1)/2 keys that a query sees
// on average; two operations each, once forward and twice backward.
TEST_CASE("operations for a token of GPT-2 124M", "[cost]") {
  const double blocks = 12. * 12 * 768 * 768, classifier = 50257. * 768, attention = 12. * 2 * 768 * 512.5;
  CHECK(flops_per_token(resolve(preset_config("gpt2", "124M"))) == 6 * (blocks + classifier + attention));
}

TEST_CASE("grouped queries and gates count as what they are", "[cost]") {
  Config c;
  c.n_layer = 2, c.n_head = 4, c.kv_heads = 2, c.channels = 32, c.hidden = 48, c.context = 7, c.vocab_size = 11;
  c.activation = Activation::swiglu, c.bias = false, c.tied = false;
  const double block = 32 * 32 + 2 * 16 * 32 + 32 * 32 + 3 * 32 * 48, attention = 2 * 32 * 4;
  CHECK(flops_per_token(resolve(c)) == 6 * (2 * (block + attention) + 11 * 32));
}

// Layers 0 and 2 see 1, 2, 3, 3, 3, 3, 3 keys, layer 1 sees 1 to 7.
TEST_CASE("a window is counted as far as it reaches", "[cost]") {
  Config c;
  c.n_layer = 3, c.n_head = 4, c.channels = 32, c.context = 7, c.vocab_size = 11;
  const double without = flops_per_token(resolve(c));
  c.window = 3, c.window_every = 2;
  CHECK(without - flops_per_token(resolve(c)) == Approx(6 * 2 * 32 * 2 * (4 - 18 / 7.)));
  c.window = 8;
  CHECK(flops_per_token(resolve(c)) == without);
}

// The most that was ever seen never falls: a first look can only have seen less, and an impossible speed brings another.
TEST_CASE("utilization is the share of the measured ceiling", "[cost]") {
  const Config config = resolve(preset_config("gpt2", "124M"));
  Utilization utilization(config);
  const double most = measure_flops(Matmul::fp32) / flops_per_token(config), exactly = 1 + 1e-12;
  CHECK(utilization.of(most / 8) * exactly >= 1. / 8);
  CHECK(utilization.of(most * 8) <= 8 * exactly);
  CHECK(utilization.of(most / 8) <= exactly / 8);
}

// Otherwise MFU would be a share of nothing; a processor of this century does 1 GFLOP/s.
TEST_CASE("the ceiling is measured", "[cost]") {
  CHECK(measure_flops(Matmul::fp32) > 1e9);
  CHECK(measure_flops(Matmul::bf16) > 1e9);
  const Bandwidth bandwidth = measure_bandwidth(1 << 20);
  CHECK(bandwidth.read > 1e8);
  CHECK(bandwidth.copy > 1e8);
}
