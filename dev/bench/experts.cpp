// A mixture of experts against a dense model with as many active parameters: forward and backward of the whole model,
// and the step of AdamW, which updates all experts.

#include "layers/model/size.hpp"
#include "layers/training/step.hpp"

#include "bench.hpp"

namespace {

// A model of 4 layers. The dense one has a feed-forward layer as wide as k experts.
struct Sizes {
  int C, F, E, k, B, T;
};

Config config_of(const Sizes& s, bool moe, Matmul matmul) {
  Config c;
  c.n_layer = 4, c.n_head = s.C / 64, c.channels = s.C, c.context = s.T, c.vocab_size = 512;
  c.norm = NormKind::rmsnorm, c.position = Position::rope, c.activation = Activation::swiglu, c.bias = false;
  c.matmul = matmul, c.hidden = moe ? s.F : s.k * s.F;
  if (moe) c.experts = s.E, c.experts_per_token = s.k;
  return resolve(c);
}

struct Trained {
  TrainingState state;
  std::vector<int> tokens, targets;
  int64_t t = 0;

  Trained(const Config& config, int B)
      : state(Model(config), B, config.context), tokens(random_tokens(size_t(B) * config.context, config.vocab_size)),
        targets(random_tokens(tokens.size(), config.vocab_size)) {
    random_weights(state.model);
  }
  void pass() {
    model_loss_and_gradients(state.model, state.activations, {tokens.data(), targets.data(), state.B, state.T}, 1e-3f,
                             {});
  }
  void update() {
    kAdamW.update({state.model.weights.get(), state.optimizer_state.get(), state.model.gradients.get()},
                  state.model.table, {}, {1e-6f, 1, ++t});
  }
};

void bench_sizes(Bench& bench, const Sizes& s, Matmul matmul) {
  Trained dense(config_of(s, false, matmul), s.B), moe(config_of(s, true, matmul), s.B);
  const std::vector<Times> times = bench.clock.race(
      {bench.clock.ours([&] { dense.pass(); }), bench.clock.ours([&] { moe.pass(); }),
       bench.clock.ours([&] { dense.update(); }), bench.clock.ours([&] { moe.update(); })});
  const int rows = s.B * s.T * s.k / s.E;
  Json row = {{"of", "C " + std::to_string(s.C) + ", F " + std::to_string(s.F) + ", " + std::to_string(s.k) + " of " +
                         std::to_string(s.E)},
              {"matmul", name_of(kMatmuls, matmul)}, {"rows", rows}};
  add_speed(row, times[1], double(s.B) * s.T * flops_per_token(moe.state.model.config), bench.flops(matmul));
  row["dense ms"] = 1e3 * times[0].seconds(), row["ms"] = 1e3 * times[1].seconds();
  row["ratio"] = speedup(times[0], times[1]);
  row["dense AdamW ms"] = 1e3 * times[2].seconds(), row["AdamW ms"] = 1e3 * times[3].seconds();
  bench.report.row(row);
}

}  // namespace

void bench_experts(Bench& all) {
  Bench bench = all;
  bench.clock.rounds = std::min(bench.clock.rounds, 5);
  bench.report.table("experts", "Mixtures of experts: forward and backward, and AdamW apart",
                     {{"of", "", 22, kText}, {"matmul", "", 6, kText}, {"rows", "rows/expert", 11, 0},
                      {"dense ms", "dense ms", 8, 1}, {"ms", "ms", 7, 1}, {"ratio", "of dense", 8, 2},
                      {"share", "of ceiling", 10, kShare}, {"dense AdamW ms", "dense AdamW", 11, 1},
                      {"AdamW ms", "AdamW ms", 8, 1}});
  std::vector<Sizes> sizes = {{256, 384, 8, 2, 8, 256}};
  if (!bench.quick) sizes.insert(sizes.end(), {{256, 384, 8, 2, 16, 256}, {512, 512, 8, 2, 8, 256}});
  for (const Sizes& s : sizes)
    for (const Matmul matmul : matmuls()) bench_sizes(bench, s, matmul);
  bench.report.say("dense: one feed-forward layer as wide as the experts of a token together.");
}
