#include "data/commands/info/cost.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

#include "check.hpp"
#include "data/commands/info/cost_text.hpp"
#include "data/host/peak.hpp"
#include "data/host/progress.hpp"
#include "forms.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/model/presets.hpp"
#include "layers/model/size.hpp"
#include "small_run.hpp"
#include "wirings.hpp"

// Computed by hand: 12 blocks of 12 C² weights, V·C in the classifier, and two products with the (T + 1)/2 keys that a
// query sees on average. Each multiply-add counts two operations, once forward and twice backward.
TEST_CASE("FLOPs per token of GPT-2 124M", "[cost]") {
  const double blocks = 12. * 12 * 768 * 768, classifier = 50257. * 768, attention = 12. * 2 * 768 * 512.5;
  CHECK(flops_per_token(resolve(preset_config("gpt2", "124M"))) == 6 * (blocks + classifier + attention));
}

TEST_CASE("FLOPs of grouped-query attention and of a gated activation", "[cost]") {
  Config c;
  c.n_layer = 2, c.n_head = 4, c.kv_heads = 2, c.channels = 32, c.hidden = 48, c.context = 7, c.vocab_size = 11;
  c.activation = Activation::swiglu, c.bias = false, c.tied = false;
  const double block = 32 * 32 + 2 * 16 * 32 + 32 * 32 + 3 * 32 * 48, attention = 2 * 32 * 4;
  CHECK(flops_per_token(resolve(c)) == 6 * (2 * (block + attention) + 11 * 32));
}

// Layers 0 and 2 see 1, 2, 3, 3, 3, 3, 3 keys, layer 1 sees 1 to 7.
TEST_CASE("FLOPs of attention with a window", "[cost]") {
  Config c;
  c.n_layer = 3, c.n_head = 4, c.channels = 32, c.context = 7, c.vocab_size = 11;
  const double without = flops_per_token(resolve(c));
  c.window = 3, c.window_layers = "1 of 2";
  CHECK(without - flops_per_token(resolve(c)) == Approx(6 * 2 * 32 * 2 * (4 - 18 / 7.)));
  c.window = 8;
  CHECK(flops_per_token(resolve(c)) == without);
}

// Two norms in each of the two blocks and one after them, each with a matrix into the gate and one out of it.
TEST_CASE("FLOPs of the gates of GatedNorm", "[cost]") {
  Config c;
  c.n_layer = 2, c.n_head = 4, c.channels = 32, c.hidden = 48, c.context = 7, c.vocab_size = 11;
  c.norm = NormKind::rmsnorm;
  const auto more = [&](auto change) {
    Config gated = c;
    gated.norm = NormKind::gatednorm, gated.gated_norm_rank = 4;
    change(c), change(gated);
    return std::pair{flops_per_token(resolve(gated)) - flops_per_token(resolve(c)),
                     flops_run_again(resolve(gated)) - flops_run_again(resolve(c))};
  };
  const double gate = 2 * 4 * 32;
  CHECK(more([](Config&) {}) == std::pair{6 * 5 * gate, 0.});
  CHECK(more([](Config& m) { m.recompute = Recompute::selective; }) == std::pair{6 * 5 * gate, 2 * 4 * gate});
  CHECK(more([](Config& m) { m.placement = "sandwich"; }) == std::pair{6 * 9 * gate, 2 * 4 * gate});
  CHECK(more([](Config& m) { m.recompute = Recompute::full; }) == std::pair{6 * 9 * gate, 2 * 8 * gate});
  // Before down, each of the three experts of a token has a row of 48.
  const double inner = 3 * 2 * 4 * 48;
  CHECK(more([](Config& m) { m.placement = "sub-ln", m.experts = 4, m.shared_experts = 1; }).first ==
        Approx(6 * (7 * gate + 2 * inner)));
  // Hyper-connections normalize four streams before each branch.
  CHECK(more([](Config& m) { m.placement = "hyper", m.experts = m.shared_experts = 0; }).first ==
        6 * (5 + 4 * 4) * gate);

  c.placement = "pre", c.norm = NormKind::gatednorm, c.gated_norm_rank = 4;
  Layout layout;
  declare_model(layout, resolve(c));
  std::vector<TensorSpec> table = layout.table();
  const double all = flops_per_token(resolve(c), table);
  for (TensorSpec& spec : table) spec.trained = !spec.name.ends_with("_norm.up");
  CHECK(all - flops_per_token(resolve(c), table) == 2 * 4 * 32);  // no dup
}

TEST_CASE("info --cost counts the products of streams", "[cost]") {
  const auto flops = [](const char* placement) {
    Config c;
    c.placement = placement, c.vocab_size = 11, c.n_layer = 3, c.channels = 32, c.streams = 4;
    return flops_per_token(resolve(c));
  };
  const double C = 32, branches = 2 * 3, read = 4 * 4 * C + 4 * C;
  CHECK(flops("mhc") - flops("pre") == 6 * branches * (24 * 4 * C + 24 * C));
  CHECK(flops("mhc-mean") == flops("mhc"));
  CHECK(flops("mhc-read") - flops("mhc") == 6 * read);
  CHECK(flops("hyper-independent") - flops("pre") == 6 * (branches * (8 * 4 * C + 8 * C) + read));
  const double r = 32, gates = 2 * r * 4 * C;  // down and up
  CHECK(flops("gated-residual") - flops("pre") ==
        6 * (branches * (gates + 4 * 4 * C + 2 * 4 * C) + gates + 4 * C));

  Config c;
  c.placement = "mhc-read", c.vocab_size = 11, c.channels = 32, c.streams = 4;
  Layout layout;
  declare_model(layout, resolve(c));
  std::vector<TensorSpec> table = layout.table();
  const double all = flops_per_token(resolve(c), table);
  for (TensorSpec& spec : table) spec.trained = spec.name != "streams.weight";
  CHECK(all - flops_per_token(resolve(c), table) == 2 * 4 * 4 * C);
}

// ---- part by part ------------------------------------------------------------------------------------------

namespace {

// Checks the parts against the two tables of tensors.
void check_costs(const Config& config, int B) {
  Layout model, activations;
  declare_model(model, config);
  declare_activations(activations, config, B, config.context, true);
  double parameters = 0, multiply_adds = 0, floats = 0;
  for (const PartCost& part : cost_of_parts(config, B))
    parameters += part.parameters, multiply_adds += part.multiply_adds, floats += part.floats;
  CHECK(parameters == static_cast<double>(count_parameters(model.table())));
  CHECK(6 * multiply_adds == Approx(flops_per_token(config)).epsilon(1e-15));
  size_t size = 0, bytes = 0;
  for (const TensorSpec& spec : activations.table()) size += spec.size(), bytes += (spec.size() + 15) / 16 * 64;
  CHECK(std::llround(floats * B * config.context) == static_cast<long long>(size));
  CHECK(memory_of_training(config, B).activations == bytes);
}

void check_costs_with_and_without_recompute(Config config) {
  config = resolve(config);
  for (const auto& [level, name] : kRecomputes) {
    config.recompute = level;
    check_costs(config, 3);
  }
}

}  // namespace

TEST_CASE("costs by part add up to the tables of tensors, whatever the form of a block", "[cost]") {
  for (const Form& form : forms())
    for (const auto& [kind, kind_name] : kNormKinds)
      for (const int layers : {1, 2, 5}) {
        if (!form.takes(kind)) continue;
        INFO(form.name << ", " << kind_name << ", " << layers << " layers");
        Config c;
        c.n_layer = layers, c.n_head = 4, c.kv_heads = 2, c.head_dim = 6, c.channels = 20, c.context = 9,
        c.vocab_size = 13;
        c.norm = kind, c.embedding_norm = layers == 2;
        c.hidden = layers == 1 ? 60 : layers == 2 ? 30 : 10;  // wider than q|k|v, than q, than neither
        form.apply(c);
        check_costs_with_and_without_recompute(c);
      }
}

TEST_CASE("costs by part add up however a model is wired, and for every preset", "[cost]") {
  for (const Wiring& wiring : wirings()) {
    INFO(wiring.name);
    check_costs_with_and_without_recompute(wired(wiring.change));
  }
  for (const Preset& preset : presets()) {  // the larger ones compute their logits in several pieces
    INFO(preset.name << " " << preset.size);
    Config c = preset.config;
    if (c.vocab_size == 0) c.vocab_size = 256;
    check_costs_with_and_without_recompute(c);
  }
}

TEST_CASE("a buffer of activations is as large as its parts", "[cost]") {
  Config c;
  c.n_layer = 3, c.n_head = 2, c.channels = 8, c.context = 5, c.vocab_size = 7;
  for (const auto& [level, name] : kRecomputes) {
    c.recompute = level;
    const Activations activations = allocate_activations(resolve(c), 2, c.context, true);
    double floats = 0, size = 0;
    for (const PartCost& part : cost_of_parts(resolve(c), 2)) floats += 10 * part.floats;
    for (const TensorSpec& spec : activations.table) size += static_cast<double>(spec.size());
    CHECK(floats == size);
  }
}

// Two blocks of Llama's kind: L 2, H 4, KV 2, D 8, C 32, F 48, T 7, V 11; B 3, so N 21.
TEST_CASE("costs of a small Llama, by hand", "[cost]") {
  Config c;
  c.n_layer = 2, c.n_head = 4, c.kv_heads = 2, c.channels = 32, c.hidden = 48, c.context = 7, c.vocab_size = 11;
  c.norm = NormKind::rmsnorm, c.position = Position::rope, c.activation = Activation::swiglu;
  c.bias = false, c.tied = false;
  const std::vector<PartCost> parts = cost_of_parts(resolve(c), 3);
  c.recompute = Recompute::full;
  const std::vector<PartCost> again = cost_of_parts(resolve(c), 3);
  const auto check = [&](Role part, double parameters, double products, double kept, double recomputed) {
    const PartCost &a = parts[size_t(part)], &b = again[size_t(part)];
    INFO(a.name);
    CHECK(a.parameters == parameters);
    CHECK(a.multiply_adds == products);
    CHECK(a.floats == Approx(kept).epsilon(1e-15));
    CHECK(b.floats == Approx(recomputed).epsilon(1e-15));
  };
  check(Role::embedding, 11 * 32, 0, 32, 32);               // V·C
  check(Role::norm, 5 * 32, 0, 5 * 33, 3 * 33);             // (2·L + 1)·C, and a scale of each row
  check(Role::qk, 4096, 4096, 128, 64);                     // L·C² + 2·L·KV·D·C; L·(H + 2·KV)·D
  check(Role::attention, 0, 2 * 2 * 32 * 4, 2 * 36, 36);    // 2·L·C·K; L·(H + C)
  check(Role::o, 2048, 2048, 0, 0);                         // L·C²
  check(Role::ffn_in, 6144, 6144, 192, 96);                 // 2·L·F·C; 2·L·F
  check(Role::activation, 0, 0, 96, 48);                    // L·F
  check(Role::ffn_out, 3072, 3072, 0, 0);                   // L·C·F
  check(Role::residual, 0, 0, 4 * 32, 3 * 32);              // 2·L·C, or (L + 1)·C
  check(Role::classifier, 352, 352, 1, 1);                  // V·C
  check(Role::scratch, 0, 0, 3 * 32 + 3 * 48, 240);         // 3·C + 3·F
  check(Role::logits, 0, 0, 11, 11);                        // V
  CHECK(parts[size_t(Role::ffn_out)].intensity == Approx(.5 / (1. / 48 + 1. / 32 + 1. / 21)));
  CHECK(parts[size_t(Role::ffn_in)].intensity ==
        Approx(.5 / (1. / 32 + 1. / 96 + 1. / 21)));  // gate and up are one product
  CHECK(parts[size_t(Role::attention)].intensity == Approx(4 * 32 / (64. + 32)));
}

// ---- output ------------------------------------------------------------------------------------------------

namespace {

// The command in a page's block that begins with "$ build/train_gpt ...", and the output that the block shows.
std::pair<std::string, std::string> shown_in(const std::string& page, const std::string& command) {
  std::ifstream file(page);
  std::string line, words, text;
  while (std::getline(file, line) && !line.starts_with("$ build/train_gpt " + command)) {}
  words = line.substr(std::min(line.size(), std::string("$ build/train_gpt ").size()));
  while (std::getline(file, line) && line != "```") text += line + "\n";
  return {words, text};
}

// The first number of the row that begins with `name`.
double number_after(std::string text, const std::string& name) {
  const size_t row = text.find("\n" + name + " ");
  REQUIRE(row != text.npos);
  std::erase(text, ',');
  return std::stod(text.substr(text.find("\n" + name + " ") + 1 + name.size()));
}

}  // namespace

TEST_CASE("the tour shows what info --cost prints", "[cost][program]") {
  const auto [words, text] = shown_in("layers/README.md", "info");
  REQUIRE(contains(words, "--cost"));
  const Outcome outcome = Folder().run(words);
  CHECK(outcome.status == 0);
  CHECK(outcome.out == text);
}

TEST_CASE("info --cost reads a model from options or from a run", "[cost][program]") {
  const Corpus f;
  REQUIRE(f.run("train --data stories.txt --steps 1 --out r" + kSmall).status == 0);
  const TrainOptions o = read_checkpoint_header(f.path("r/checkpoint.safetensors")).options;
  Layout layout;
  declare_model(layout, o.config);
  std::vector<TensorSpec> table = layout.table();
  assign_optimizers(table, kAdamWAlone);
  const Outcome with = f.run("info r --cost --batch 2"), first = f.run("info --cost --batch 2 r");
  CHECK(contains(with.out, cost_text(o.config, 2, table)));
  CHECK(first.out == with.out);
  CHECK(contains(f.run("info r --cost").out, cost_text(o.config, o.batch, table)));
  CHECK_FALSE(contains(f.run("info r").out, "flops a token"));

  CHECK(contains(f.run("info r --cost --optimizer muon").out, "of AdamW, Muon"));
  CHECK(contains(f.run("info --cost --optimizer muon").out, "of AdamW, Muon"));
  REQUIRE(f.run("train --data stories.txt --steps 1" + kTiny).status == 0);
  const std::string newest = f.run("info --cost").out;  // of a run, if there is one
  CHECK(contains(newest, "1 layer x 8 channels"));
  CHECK(contains(f.run("info --cost --batch 8").out, "B 8 · T 16"));
  CHECK(contains(f.run("info --cost --layers 3").out, "3 layers x 128 channels"));
  check_refused(f, "info r --optimizer lion --moments bf16", "moments in bf16 are those of AdamW");
  const std::string norms = f.run("info r --cost --train-only norm").out;
  CHECK(number_after(norms, "gradients") > 4 * number_after(norms, "trained"));  // frozen vectors have gradients
  CHECK(contains(norms, "Matrices that do not train have no dW."));
}

TEST_CASE("info --cost shows what ranks need and how long their steps take", "[cost][program]") {
  const Folder f;
  const std::string words =
      "info --cost --layers 2 --channels 64 --heads 4 --context 32 --batch 4 --accumulate 8 --ranks 3";
  const std::string plain = f.run(words).out, timed = f.run(words + " --bandwidth 1G --speed 1000").out;
  CHECK(contains(plain, "ranks  micro-batches  of a rank"));
  CHECK(contains(plain, "For times, say --bandwidth 10G and --speed TOKENS"));
  // One process takes 1.024 s for 8 micro-batches of 128 tokens. Three ranks have 4 lanes, of which one rank takes two.
  CHECK(contains(timed, "1.02 s"));
  CHECK(contains(timed, "0.51 s"));
  CHECK(contains(timed, "66 %"));
  const std::string slow = f.run(words + " --bandwidth 20M --speed 1000").out;
  CHECK(contains(slow, "0.51 s    0.27 s     1,310  2,000        44 %   67 %"));  // no overlap, and full overlap
  check_refused(f, words + " --bandwidth fast", "--bandwidth fast is not a bandwidth");
  check_refused(f, "info --ranks 3", "--ranks needs --cost");
}

TEST_CASE("info --cost refuses impossible options in one line", "[cost][program]") {
  const Folder f;
  for (const auto& [words, message] : {std::pair{"--cost --batch 0", "--batch"},
                                       {"--cost --batch x", "--batch"},
                                       {"--cost --heads 3", "does not divide"},
                                       {"--cost --batch 1048576 --context 4194304", "lower the batch or the context"},
                                       {"--cots", "did you mean '--cost'"},
                                       {"nowhere --cost", "nowhere"}}) {
    INFO(words);
    const Outcome outcome = f.run("info " + std::string(words));
    CHECK(outcome.status == 1);
    CHECK(contains(outcome.err, message));
    CHECK(count_lines(outcome.err) == 1);
    CHECK(outcome.out.empty());
  }
}

// ---- memory ------------------------------------------------------------------------------------------------

// The last number in the memory's row "all", in the column of a level of --recompute.
double memory_in(const std::string& cost, Recompute level) {
  std::istringstream text(cost.substr(cost.find("memory of a step")));
  for (std::string line, word; std::getline(text, line);) {
    if (!line.starts_with("all ")) continue;
    std::erase(line, ',');
    std::istringstream row(line);
    row >> word;
    double bytes = 0;
    for (int column = 0; column <= static_cast<int>(level); ++column) row >> bytes;
    return bytes;
  }
  return 0;
}

// With validation, a sample and saving. The text has 60 thousand tokens.
void check_peak_memory(const Folder& f, const std::string& words) {
  INFO(words);
  const double peak = static_cast<double>(
      f.peak_of("train --data stories.txt --threads 2 --out r --force --steps 1 --eval-every 1 --sample-every 1 "
                "--eval-batches 2 " + words));
  if (peak == 0 && !std::ifstream("/proc/self/status")) return;
  const Recompute level = read_checkpoint_header(f.path("r/checkpoint.safetensors")).options.config.recompute;
  CHECK(peak == Approx(memory_in(f.run("info r --cost").out, level)).epsilon(.03));
}

void check_peak_memory(std::initializer_list<std::string> runs) {
  if (std::getenv("SANITIZED")) return;  // the sanitizers need extra memory
  const Corpus f;
  for (const std::string& words : runs) check_peak_memory(f, words);
}

TEST_CASE("a run's peak memory is what info --cost says, within 3 %", "[cost][program]") {
  check_peak_memory({"--batch 8", "--layers 12 --channels 64", "--matmul bf16 --batch 8", "--channels 256 --lora 4",
                     "--layers 12 --moments bf16", "--placement admin",
                     "--placement hyper --batch 8", "--preset olmoe --recompute"});
}

// More than 64 MB of weights that train are not copied for best.safetensors.
TEST_CASE("no command holds the weights twice", "[cost][program]") {
  if (std::getenv("SANITIZED")) return;
  const Corpus f;
  // Large enough that 2 MB more of headers and code, which a second model takes, are less than 3 %.
  const std::string sizes = "--preset llama2 --layers 8 --channels 512 --heads 4 --context 32 --batch 1 ";
  check_peak_memory(f, sizes + "--layers 6 --final-batches 1");
  REQUIRE(f.run("train --data stories.txt --steps 1 --quiet --eval-every 0 --out base " + sizes).status == 0);
  REQUIRE(f.run("export base --to hf --out hf").status == 0);
  for (const std::string from : {"base", "hf"})
    check_peak_memory(f, "--batch 1 --final-batches 1 --lora 4 --init-from " + from);
  const Config config = read_checkpoint_header(f.path("hf")).options.config;
  const double weights = sizeof(float) * static_cast<double>(count_parameters(config));
  for (const std::string words : {"export r --to hf --lora-merge --out merged", "export base --to hf --out again",
                                  "import hf --out in"}) {
    INFO(words);
    CHECK(static_cast<double>(f.peak_of(words)) < 1.2 * weights + kProgramBytes);
  }
}

TEST_CASE("more runs' peak memory is what info --cost says, within 3 %", "[cost][program][nightly]") {
  check_peak_memory({"--channels 256 --dropout 0.1 --accumulate 2", "--layers 12 --recompute selective",
                     "--layers 12 --recompute", "--preset llama2 --batch 8",
                     "--placement post --norm batchnorm --batch 8", "--experts 4 --shared-experts 1 --batch 8",
                     "--vocab-size 20000", "--placement mhc --streams 8 --recompute selective"});
}

// ---- speed -------------------------------------------------------------------------------------------------

// The margin allows for a processor that changes its frequency. Without optimization the peak is less than half.
TEST_CASE("no matrix product is much faster than the machine's peak", "[cost][slow]") {
  constexpr int n = 256;
  const std::vector<float> a(n * n, .5f), b(n * n, .5f);
  std::vector<float> c(n * n);
  double seconds = 1;
  for (int i = 0; i < 20; ++i) {
    const Stopwatch clock;
    gemm_nn(c.data(), a.data(), b.data(), n, n, n);
    seconds = std::min(seconds, clock.seconds());
  }
  CHECK(2. * n * n * n / seconds < 1.5 * measure_flops(Matmul::fp32));
}

// The ceiling never falls: the first measurement can only be too low, and an impossible speed triggers another.
TEST_CASE("utilization is the share of the measured ceiling", "[cost]") {
  const Config config = resolve(preset_config("gpt2", "124M"));
  Utilization utilization(config.matmul, flops_per_token(config));
  const double most = measure_flops(Matmul::fp32) / flops_per_token(config), exactly = 1 + 1e-12;
  CHECK(utilization.of(most / 8) * exactly >= 1. / 8);
  CHECK(utilization.of(most * 8) <= 8 * exactly);
  CHECK(utilization.of(most / 8) <= exactly / 8);
}

// A low measurement must not lower the ceiling.
TEST_CASE("the ceiling is the largest of its measurements", "[cost]") {
  for (int i = 0; i < 5; ++i) {
    const double largest = measure_flops(Matmul::fp32);
    CHECK(measure_flops_again(Matmul::fp32) >= largest);
  }
}

// MFU needs a ceiling above 0. Any processor of this century does 1 GFLOP/s.
TEST_CASE("the ceiling is measured", "[cost]") {
  CHECK(measure_flops(Matmul::fp32) > 1e9);
  CHECK(measure_flops(Matmul::bf16) > (gemm_has_amx() ? 2 * measure_flops(Matmul::fp32) : 1e9));  // 16 times
  const Bandwidth bandwidth = measure_bandwidth(1 << 20);
  CHECK(bandwidth.read > 1e8);
  CHECK(bandwidth.copy > 1e8);
}
