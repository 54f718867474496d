// Whole training steps: forward, backward, clipping and AdamW, on random tokens.

#include <algorithm>
#include <cmath>
#include <optional>

#include "data/strings/format.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/model/size.hpp"
#include "data/host/machine.hpp"
#include "layers/model/presets.hpp"
#include "layers/training/step.hpp"

#include "bench.hpp"

namespace {

struct Recipe {
  std::string name;
  Config config;  // its context is the length of the sequences
  int B;
  bool rmsnorm;  // also time it with RMSNorm
  bool compile;  // also time PyTorch's compiled model
};

std::vector<Recipe> recipes(bool quick) {
  Config nano = preset_config("gpt2", "nano");  // dev/recipes/shakespeare-char.toml
  nano.context = 64, nano.vocab_size = 65, nano.activation = Activation::gelu, nano.bias = false;
  std::vector<Recipe> list = {{"nanoGPT's, B12 T64", resolve(nano), 12, true, true}};
  if (quick) return list;
  Config pairs;  // Pre-LN, otherwise of the sizes of Vaswani's base model
  pairs.objective = Objective::pairs, pairs.n_layer = pairs.encoder_layers = 6, pairs.n_head = 8;
  pairs.channels = 512, pairs.context = 64, pairs.vocab_size = 4096;
  list.push_back({"6 + 6 x 512, B8 T64", resolve(pairs), 8, false, true});
  Config gpt2 = resolve(preset_config("gpt2", "124M"));
  list.push_back({"GPT-2 124M, B1 T1024", gpt2, 1, false, false});
  gpt2.context = 64;
  list.insert(list.begin() + 2, {"GPT-2 124M, B4 T64", gpt2, 4, true, true});
  return list;
}

// A model that trains on the same random batch in every step.
struct Training {
  TrainingState state;
  std::vector<int> tokens, targets;
  std::vector<int> begins, from, to;  // of sources, each as long as its target
  int64_t t = 0;

  Training(const Config& config, int B)
      : state(Model(config), B, config.context), tokens(random_tokens(size_t(B) * config.context, config.vocab_size)),
        targets(random_tokens(tokens.size(), config.vocab_size)), begins(tokens.size()), from(tokens.size()),
        to(tokens.size(), config.context) {
    random_weights(state.model);
  }

  Batch batch() const {
    Batch all{tokens.data(), targets.data(), state.B, state.T};
    if (state.model.config.crosses())
      all.encoder = {tokens.data(), state.T, begins.data(), from.data(), to.data()};
    return all;
  }

  // A validation batch: the same tokens, forward only.
  void validate() { model_loss(state.model, state.activations, batch()); }

  void step() { training_step(state, micro_batches(batch(), 1), {}, t++, 1e-5); }
};

std::string request(const Recipe& r, const Config& c, Matmul matmul, const char* mode) {
  const auto number = [](const char* name, int value) { return std::string(" ") + name + "=" + std::to_string(value); };
  return "step" + number("layers", c.n_layer) + number("encoder", c.encoder_layers) + number("heads", c.n_head) +
         number("channels", c.channels) + number("vocab", c.vocab_size) + number("context", c.context) +
         number("bias", c.bias) + number("batch", r.B) + number("time", c.context) +
         " activation=" + name_of(kActivations, c.activation) + " norm=" + name_of(kNormKinds, c.norm) +
         " matmul=" + name_of(kMatmuls, matmul) + " mode=" + mode;
}

// A row of the table with the indices of its contestants, -1 for none.
struct Entry {
  Config config;
  std::optional<Training> training;
  int ours, validation, eager = -1, compiled = -1;
};

Json report_row(const Bench& bench, const Recipe& r, const Entry& entry, Matmul matmul,
                const std::vector<Times>& times) {
  Json row = {{"of", r.name}, {"norm", name_of(kNormKinds, entry.config.norm)}, {"matmul", name_of(kMatmuls, matmul)}};
  const auto at = [&](int i) { return i < 0 ? Times{} : times[i]; };
  const Times ours = at(entry.ours), eager = at(entry.eager), compiled = at(entry.compiled);
  const double tokens = double(r.B) * entry.config.context;
  add_speed(row, ours, tokens * flops_per_token(entry.config), bench.flops(matmul));
  row["ms"] = 1e3 * ours.seconds();
  row["tokens per second"] = tokens / ours.seconds();
  row["validation"] = speedup(ours, at(entry.validation));
  if (eager.known()) row["eager ms"] = 1e3 * eager.seconds();
  if (compiled.known()) row["compiled ms"] = 1e3 * compiled.seconds();
  double ratio = INFINITY;
  for (const Times& theirs : {eager, compiled})
    if (theirs.known()) ratio = std::min(ratio, speedup(ours, theirs));
  if (std::isfinite(ratio)) row["ratio"] = ratio;
  return row;
}

void bench_recipe(Bench& bench, const Recipe& r, Matmul matmul) {
  std::vector<Entry> entries(r.rmsnorm && matmul == Matmul::fp32 ? 2 : 1);
  std::vector<Contestant> contestants;
  const auto enter = [&](Contestant contestant) {
    contestants.push_back(std::move(contestant));
    return static_cast<int>(contestants.size()) - 1;
  };
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry& e = entries[i];
    e.config = r.config;
    if (i == 1) e.config.norm = NormKind::rmsnorm, e.config.norm_bias = false;
    e.config.matmul = matmul;
    e.training.emplace(e.config, r.B);
    e.ours = enter(bench.clock.ours([&e] { e.training->step(); }));
    e.validation = enter(bench.clock.ours([&e] { e.training->validate(); }));
    if (!bench.clock.peer.present()) continue;
    e.eager = enter(bench.clock.theirs(request(r, e.config, matmul, "eager")));
    if (r.compile && i == 0) e.compiled = enter(bench.clock.theirs(request(r, e.config, matmul, "compile")));
  }
  const std::vector<Times> times = bench.clock.race(contestants);
  bench.clock.peer.forget();
  for (const Entry& e : entries) bench.report.row(report_row(bench, r, e, matmul, times));
  if (entries.size() < 2) return;
  const auto change = [&](int layernorm, int rmsnorm) {
    return times[layernorm].known() && times[rmsnorm].known()
               ? format(" %+.1f %%", 100 * (1 / speedup(times[rmsnorm], times[layernorm]) - 1))
               : " unknown";
  };
  std::string text = "  RMSNorm instead of LayerNorm changes the time of a step by";
  text += change(entries[0].ours, entries[1].ours);
  if (entries[0].eager >= 0) text += "; PyTorch's, eager, by" + change(entries[0].eager, entries[1].eager);
  bench.report.say(text);
}

// Steps so short that the time between their loops counts, too.
void bench_tiny(Bench& bench) {
  bench.report.table("tiny steps", "Steps of tiny models on one thread: 2 layers",
                     {{"of", "", 20, kText}, {"us", "us", 8, 0}, {"ns per position", "ns/position", 11, 0}});
  const int threads = max_threads();
  use_threads(1);
  for (const auto& [B, T] : {std::pair(1, 16), {4, 64}})
    for (const int channels : {16, 32}) {
      Config tiny = preset_config("gpt2", "nano");
      tiny.n_layer = tiny.n_head = 2, tiny.channels = channels, tiny.context = T, tiny.vocab_size = 65;
      tiny = resolve(tiny);
      Training training(tiny, B);
      const double seconds = bench.clock.alone([&] { training.step(); }).seconds();
      const std::string name = "B" + std::to_string(B) + " T" + std::to_string(T) + ", " + std::to_string(channels);
      bench.report.row({{"of", name + " channels"}, {"us", 1e6 * seconds},
                        {"ns per position", 1e9 * seconds / (B * T)}});
    }
  use_threads(threads);
}

}  // namespace

void bench_steps(Bench& all) {
  Bench bench = all;
  bench.clock.rounds = std::min(bench.clock.rounds, 3);
  bench.report.table("steps", "Training steps: forward, backward, clipping, AdamW",
                     {{"of", "", 20, kText}, {"norm", "", 9, kText}, {"matmul", "", 6, kText}, {"ms", "ms", 7, 1},
                      {"tokens per second", "tokens/s", 8, 0}, {"share", "of ceiling", 10, kShare},
                      {"validation", "validation", 10, kShare},
                      {"eager ms", "PyTorch eager", 13, 1}, {"compiled ms", "compiled ms", 11, 1},
                      {"ratio", "ours / better", 13, 2}});
  for (const Recipe& r : recipes(bench.quick))
    for (Matmul matmul : matmuls()) {
      const size_t need = memory_of_training(r.config, r.B).total() * (r.rmsnorm ? 2 : 1) *
                          (bench.clock.peer.present() ? 2 : 1);
      const size_t free = detect_machine().memory_free;
      if (free && need > free)
        bench.report.say(r.name + ": left out, it needs " + format_bytes(need) + " of memory, " + format_bytes(free) +
                         " are free");
      else
        bench_recipe(bench, r, matmul);
    }
  if (bench.clock.peer.present())
    bench.report.say(
        "PyTorch: scaled_dot_product_attention, fused AdamW, bf16 by autocast. Not compiled at T1024, because\n"
        "that takes minutes.");
  bench.report.say("Validation: the loss of the same tokens without gradients, as a share of the step.");
  bench_tiny(bench);
}
