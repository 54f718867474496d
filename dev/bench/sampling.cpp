// Text, one token at a time: every weight is read once for each, so the bound is the bandwidth of reading.

#include "layers/generate.hpp"

#include "bench.hpp"

namespace {

// Bytes of the weights that one token needs: all but the rows of the embeddings that are not its own.
double bytes_of_weights(const Model& model) {
  size_t floats = 0;
  for (const TensorSpec& spec : model.table) floats += spec.size();
  if (model.p.position) floats -= size_t(model.config.context) * model.config.channels;
  if (model.p.head) floats -= size_t(model.config.vocab_size) * model.config.channels;
  return static_cast<double>(floats) * sizeof(float);
}

void bench_model(Bench& bench, const char* preset, const char* size) {
  Model model(preset_config(preset, size), false);
  random_weights(model);
  const std::vector<int> prompt = random_tokens(16, model.config.vocab_size);
  Generator greedy(model), drawing(model);
  const float *likely = greedy.feed(prompt), *drawn = drawing.feed(prompt);
  uint64_t counter = 0;
  const auto next = [&](Generator& generator, const float*& logits, bool at_random) {
    const Sampling sampling{.greedy = !at_random};
    logits = generator.feed({sample_token(logits, model.config.vocab_size, sampling, counter++)});
  };
  const std::vector<Times> times = bench.clock.race({bench.clock.ours([&] { next(greedy, likely, false); }),
                                                     bench.clock.ours([&] { next(drawing, drawn, true); })});
  const char* names[] = {"likeliest token", "drawn, temperature 1"};
  for (size_t i = 0; i < 2; ++i) {
    Json row = {{"of", std::string(preset) + " " + size}, {"how", names[i]}};
    row["tokens per second"] = 1 / times[i].seconds();
    add_speed(row, times[i], bytes_of_weights(model), bench.bandwidth.read);
    bench.report.row(row);
  }
}

}  // namespace

void bench_sampling(Bench& bench) {
  bench.report.table("sampling", "Sampling with the key/value cache, behind a prompt of 16 tokens",
                     {{"of", "", 12, kText}, {"how", "", 20, kText}, {"tokens per second", "tokens/s", 8, 1},
                      {"speed", "GB/s of weights", 15, 1}, {"share", "of reading", 10, kShare}});
  if (!bench.quick) bench_model(bench, "gpt2", "124M");
  bench_model(bench, "llama2", "15M");
}
