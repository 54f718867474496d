// What block.hpp promises besides its numbers, which test_model.cpp (PyTorch) and test_textbook.cpp check.

#include "layers/model/block.hpp"

#include "branch.hpp"
#include "check.hpp"
#include "forms.hpp"

namespace {

struct Run {
  std::vector<float> y, dx, gradients;
  std::vector<float> all() const { return joined({y, dx, gradients}); }
};

Config make_config(const Form& form, bool llama, int channels = 36) {
  Config config;
  form.apply(config);
  config.vocab_size = 1, config.channels = channels, config.n_head = 6, config.context = 50;
  if (llama) like_llama(config), config.hidden = 50;
  return resolve(config);
}

Run run(const Config& config, int B, int T, const Dropout& dropout, int backwards = 1) {
  const int layer = 3, N = B * T, C = config.channels;
  Layout measure;
  declare_block(measure, config, layer);
  std::vector<float> weights = random_floats(measure.size(), 1, 0, .2f), gradients(measure.size());
  Layout on_weights(weights.data()), on_gradients(gradients.data());
  const Block p = declare_block(on_weights, config, layer), g = declare_block(on_gradients, config, layer);

  Layout sizes;  // filled with NaN: no saved or scratch value may be read before it is written
  declare_block_saved(sizes, config, layer, B, T, true);
  declare_block_scratch(sizes, config, B, T, true);
  std::vector<float> buffer = garbage(sizes.size());
  Layout layout(buffer.data());
  const BlockSaved saved = declare_block_saved(layout, config, layer, B, T, true);
  BlockScratch scratch = declare_block_scratch(layout, config, B, T, true);
  std::vector<std::vector<float>> sums;
  add_sums(scratch.streams, sums, config, N);

  const RopeTables ropes(config);
  const BlockContext context{config, ropes, scratch, B, T, dropout, layer, {}};
  const int wide = stream_count(config) * N * C;
  const std::vector<float> x = random_floats(wide, 2);
  block_forward(saved, x.data(), p, context);
  Run r{{saved.ffn.y, saved.ffn.y + wide}, {}, {}};
  for (int i = 0; i < backwards; ++i) {
    r.dx = random_floats(wide, 3);
    std::fill_n(scratch.streams.depth.d, sums.size() * size_t(N) * C, 0.f);
    block_backward(r.dx.data(), g, x.data(), saved, p, context);
  }
  for (const TensorSpec& spec : measure.table())
    r.gradients.insert(r.gradients.end(), &gradients[spec.offset], &gradients[spec.offset] + spec.size());
  return r;
}

}  // namespace

TEST_CASE("q, k and v form one aligned matrix, and so do gate and up", "[block]") {
  Layout layout;
  declare_block(layout, make_config({"pre", "pre"}, true), 3);
  const auto row = [&](const std::string& name) {
    for (const TensorSpec& spec : layout.table())
      if (spec.name == "block.3." + name + ".weight") return spec;
    FAIL("no " << name);
    return TensorSpec{};
  };
  const TensorSpec q = row("attention.q"), k = row("attention.k"), v = row("attention.v");
  CHECK(q.offset % 16 == 0);
  CHECK(k.offset == q.offset + q.size());
  CHECK(v.offset == k.offset + k.size());
  CHECK(k.shape == std::vector<int>{12, 36});
  const TensorSpec gate = row("ffn.gate"), up = row("ffn.up");
  CHECK(gate.offset % 16 == 0);
  CHECK(up.offset == gate.offset + gate.size());
}

TEST_CASE("a block adds to the gradients of its parameters and overwrites that of its input", "[block]") {
  for (const Form& form : forms())
    for (const bool llama : {false, true}) {
      INFO(form.name << (llama ? " llama" : " gpt"));
      const Config config = make_config(form, llama);
      const Run once = run(config, 3, 7, {.p = .1f}), twice = run(config, 3, 7, {.p = .1f}, 2);
      CHECK(same_bits(once.dx, twice.dx));
      check_close("block/" + form.name + "/twice", twice.gradients, times(2, widen(once.gradients)), 1e-6);
      for (const float x : once.all()) REQUIRE(std::isfinite(x));
    }
}

TEST_CASE("a block is the same for any number of threads", "[block]") {
  for (const Form& form : forms())
    for (const bool llama : {false, true})
      check_same_for_all_threads([&] { return run(make_config(form, llama, 96), 4, 50, {.p = .1f}).all(); });
}

TEST_CASE("ReZero's gain and GPAS's gate are one number for both branches of a block", "[block]") {
  struct Shared {
    const char *placement, *tensor;
    float* (*of)(const Branch& branch);
  };
  for (const Shared& shared : {Shared{"rezero", "scale.gain", [](const Branch& b) { return b.gain.weight; }},
                               Shared{"gpas", "gpas.gate", [](const Branch& b) { return b.gpas.gate; }}}) {
    INFO(shared.placement);
    const Config config = make_config({shared.placement, shared.placement}, false);
    std::vector<float> weights(1 << 16);
    Layout layout(weights.data());
    const Block first = declare_block(layout, config, 0), second = declare_block(layout, config, 1);
    CHECK(shared.of(first.attention) == shared.of(first.ffn));
    CHECK(shared.of(first.ffn) != shared.of(second.ffn));
    CHECK(layout.table().back().name == "block.1." + std::string(shared.tensor));
    CHECK(layout.table().back().shape == std::vector<int>{1});
    CHECK(layout.table().back().start.mean == 0);
    CHECK_FALSE(layout.table().back().decay);
  }
}
