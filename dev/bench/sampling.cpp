// Sampling, one token at a time. Each token reads every weight once, so the limit is the bandwidth of reading. A prompt
// is read in one pass, which the peak of the processor limits.

#include "layers/model/generate.hpp"
#include "layers/model/presets.hpp"
#include "layers/model/size.hpp"

#include "bench.hpp"

namespace {

// A model whose matrices consist of these numbers.
Model model_of(const Config& config, NumberType numbers) {
  std::vector<TensorSpec> table = Model(config, false).table;
  for (TensorSpec& spec : table) spec.trained = false;  // keep_frozen() then changes all matrices
  keep_frozen(table, config, numbers);
  return Model(config, table, false);
}

// Bytes of the weights that one token reads: all except the embedding rows of other tokens and positions.
double bytes_of_weights(const Model& model) {
  size_t floats = 0;
  for (const TensorSpec& spec : model.table) floats += floats_of(spec.numbers, spec.size());
  if (model.p.position) floats -= size_t(model.config.context) * model.config.channels;
  if (model.p.head)
    floats -= floats_of(model.p.token.numbers, size_t(model.config.vocab_size) * model.config.embedding_channels);
  return static_cast<double>(floats) * sizeof(float);
}

void bench_model(Bench& bench, const char* preset, const char* size, NumberType numbers = NumberType::fp32) {
  Model model = model_of(resolve(preset_config(preset, size)), numbers);
  random_weights(model);
  const std::vector<int> prompt = random_tokens(16, model.config.vocab_size);
  Generator greedy(model, model.config.context), drawing(model, model.config.context);
  const float *likely = greedy.feed(prompt), *drawn = drawing.feed(prompt);
  uint64_t counter = 0;
  const auto next = [&](Generator& generator, const float*& logits, bool at_random) {
    const Sampling sampling{.temperature = at_random ? 1.f : 0.f};
    logits = generator.feed({sample_token(logits, model.config.vocab_size, sampling, counter++)});
  };
  const std::vector<Times> times =
      bench.clock.race({bench.clock.ours([&] { read_once(model.weights.get(), model.floats); }),
                        bench.clock.ours([&] { next(greedy, likely, false); }),
                        bench.clock.ours([&] { next(drawing, drawn, true); })});
  const double all = static_cast<double>(model.floats) * sizeof(float), used = bytes_of_weights(model);
  const auto row = [&](const char* how, const Times& time, double bytes) {
    const char* suffix = numbers == NumberType::fp32 ? "" : ", bf16";
    Json row = {{"of", std::string(preset) + " " + size + suffix}, {"how", how}};
    add_speed(row, time, bytes, all / times[0].seconds());
    row["share"] = speedup(time, times[0]) * bytes / all;  // timed in the same rounds
    return row;
  };
  bench.report.row(row("reading, nothing else", times[0], all));
  for (int i : {1, 2}) {
    Json tokens = row(i == 1 ? "likeliest token" : "drawn, temperature 1", times[i], used);
    tokens["tokens per second"] = 1 / times[i].seconds();
    bench.report.row(tokens);
  }
}

// A prompt as long as the context: one pass over all its tokens, and the logits of the last one.
void bench_prompt(Bench& bench, const Config& config, NumberType numbers, const char* how) {
  Model model = model_of(config, numbers);
  random_weights(model);
  const int T = config.context;
  const std::vector<int> prompt = random_tokens(T, config.vocab_size);
  const Activations activations = allocate_activations(config, 1, T, false);
  const std::vector<Times> times =
      bench.clock.race({bench.clock.ours([&] { Generator(model, T, 1, &activations).feed(prompt); })});
  const double classifier = 2. * config.vocab_size * config.embedding_channels;
  const double flops = T * (flops_per_token(config) / 3 - classifier) + classifier;
  Json row = {{"of", how}, {"tokens per second", T / times[0].seconds()}};
  add_speed(row, times[0], flops, bench.flops(config.matmul));
  bench.report.row(row);
}

void bench_prompts(Bench& bench) {
  bench.report.table("prompts", "GPT-2 124M reads a prompt of 1024 tokens into a new cache",
                     {{"of", "", 28, kText}, {"seconds", "s", 6, 3}, {"tokens per second", "tokens/s", 9, 0},
                      {"speed", "GFLOP/s", 8, 0}, {"share", "of ceiling", 10, kShare}});
  Config config = resolve(preset_config("gpt2", "124M"));
  for (const Matmul matmul : matmuls()) {
    const bool half = matmul == Matmul::bf16;
    config.matmul = matmul;
    bench_prompt(bench, config, NumberType::fp32, half ? "products in bf16" : "fp32");
    bench_prompt(bench, config, NumberType::bf16, half ? "products and weights in bf16" : "weights in bf16");
  }
}

}  // namespace

void bench_sampling(Bench& bench) {
  bench.report.table("sampling", "Sampling with the key/value cache, after a prompt of 16 tokens",
                     {{"of", "", 16, kText}, {"how", "", 21, kText}, {"tokens per second", "tokens/s", 8, 1},
                      {"speed", "GB/s of weights", 15, 1}, {"share", "of reading", 10, kShare}});
  if (!bench.quick) bench_model(bench, "gpt2", "124M");
  if (!bench.quick) bench_model(bench, "gpt2", "124M", NumberType::bf16);
  bench_model(bench, "llama2", "15M");
  if (!bench.quick) bench_prompts(bench);
}
