// Our side of dev/peers.sh.
//
//   peers batch MODEL STATE              writes the debug state of a random batch
//   peers compare MODEL STATE LOSSES     compares another program's debug state of that batch, and its losses of ten
//                                        steps of AdamW, with ours
//   peers generate MODEL PROMPT LENGTH   prints greedy text as llama2.c's run does

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/files/files.hpp"
#include "data/formats/formats.hpp"
#include "debug_state.hpp"
#include "layers/kernels/random.hpp"
#include "layers/model/generate.hpp"
#include "layers/training/optimizer.hpp"

namespace {

constexpr int kB = 4, kT = 48, kSteps = 10;
constexpr float kRate = 1e-3f;

// A few times the worst error measured (AVX2). llm.c computes in float, too, and sums in another order.
constexpr double kLogits = 1e-6, kGradient = 2e-6, kLosses = 2e-6;  // 1.4e-7, 3.7e-7, 2.6e-7

Model read_model(const std::string& path) {
  const auto from = format_of(path)->open(path);
  Model model(from->config());
  from->load(model);
  return model;
}

// ‖got − want‖ / ‖want‖
double error(std::span<const float> got, std::span<const float> want) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = double(got[i]) - want[i];
    difference += d * d, size += double(want[i]) * want[i];
  }
  return std::sqrt(difference / std::fmax(size, 1e-30));
}

// Collects errors of one kind. Prints those that are too large, their number, and the worst.
int failures = 0;
class Errors {
 public:
  Errors(const char* kind, double tolerance) : kind_(kind), tolerance_(tolerance) {}
  Errors(const Errors&) = delete;
  Errors& operator=(const Errors&) = delete;
  ~Errors() { std::printf("%-10s %2d compared, worst error %.2g, allowed %.2g\n", kind_, count_, worst_, tolerance_); }

  void add(const std::string& what, double error) {
    ++count_;
    worst_ = error > worst_ || std::isnan(error) ? error : worst_;
    if (error <= tolerance_) return;
    ++failures;
    std::printf("FAILED: %s of %s: %.2g\n", kind_, what.c_str(), error);
  }

 private:
  const char* kind_;
  double tolerance_, worst_ = 0;
  int count_ = 0;
};

void write_batch(const std::string& model_path, const std::string& path) {
  Model model = read_model(model_path);
  std::vector<int> tokens, targets;
  for (uint64_t i = 0; i < kB * kT; ++i) {
    tokens.push_back(int(rng::key({1, i}) % uint64_t(model.config.vocab_size)));
    targets.push_back(int(rng::key({2, i}) % uint64_t(model.config.vocab_size)));
  }
  write_debug_state(path, model, debug_state(model, tokens, targets, kB, kT));
}

std::vector<float> losses_in(const std::string& path) {
  std::vector<float> losses;
  std::istringstream words(read_file(path));
  for (std::string word; words >> word;)
    if (word == "loss" && words >> word) losses.push_back(std::stof(word));
  return losses;
}

// Without weight decay, because llm.c decays biases and gains, too.
std::vector<float> train(Model& model, const DebugState& batch) {
  const Activations a = allocate_activations(model.config, batch.B, batch.T, true);
  const OptimizerOptions adamw = {.beta1 = .9f, .beta2 = .999f, .eps = 1e-8f, .weight_decay = 0};
  assign_optimizers(model.table, kAdamWAlone);
  const Buffer state = allocate(state_floats(model.table));
  std::vector<float> losses;
  const int N = batch.B * batch.T;
  for (int step = 0; step < kSteps; ++step) {
    std::fill_n(model.gradients.get(), model.floats, 0.f);
    const Batch of = {batch.tokens.data(), batch.targets.data(), batch.B, batch.T};
    losses.push_back(float(model_loss_and_gradients(model, a, of, 1.f / float(N), {}) / N));
    kAdamW.update({model.weights.get(), state.get(), model.gradients.get()}, tensors_of(model.table, kAdamW), adamw,
                  {kRate, 1, step + 1});
  }
  return losses;
}

void compare(const std::string& model_path, const std::string& state, const std::string& losses) {
  Model model = read_model(model_path);
  const DebugState theirs = read_debug_state(state, model);
  const DebugState ours = debug_state(model, theirs.tokens, theirs.targets, theirs.B, theirs.T);
  Errors("loss", kLogits).add("the batch", std::fabs(double(ours.loss) / theirs.loss - 1));
  Errors("logits", kLogits).add("the batch", error(ours.logits, theirs.logits));
  Errors gradients("gradient", kGradient), steps("loss", kLosses);
  for (const TensorSpec& spec : model.table) {
    // Softmax does not see the bias of keys, so its gradient is zero except for rounding.
    if (spec.name.ends_with("attention.k.bias")) continue;
    const auto part = [&](const DebugState& s) { return std::span(s.gradients).subspan(spec.offset, spec.size()); };
    gradients.add(spec.name, error(part(ours), part(theirs)));
  }
  const std::vector<float> want = losses_in(losses), got = train(model, theirs);
  if (want.size() != got.size()) throw std::runtime_error(losses + " does not have ten losses");
  for (int i = 0; i < kSteps; ++i)
    steps.add("step " + std::to_string(i + 1), std::fabs(double(got[i]) / want[i] - 1));
}

// Prints like run.c: no space after the beginning, no single bytes that are not printable.
void generate(const std::string& path, const std::string& prompt, int length) {
  const auto from = format_of(path)->open(path);
  Model model(from->config(), false);
  from->load(model);
  const Tokenizer tokenizer = from->tokenizer();
  const int begin = tokenizer.pieces()->tables().begin;
  std::vector<int> all = {begin};
  for (const uint32_t token : tokenizer.encode(prompt)) all.push_back(int(token));
  const int V = model.config.vocab_size, given = int(all.size());
  Generator generator(model, given + length);
  const float* logits = generator.feed(all);
  while (int(all.size()) < length + 1) {
    const int next = int(std::max_element(logits, logits + V) - logits);
    if (next == begin) break;
    all.push_back(next);
    logits = generator.feed({next});
  }
  for (size_t i = 1; i < all.size(); ++i) {
    std::string piece = tokenizer.decode(all[i]);
    if (i == 1 && piece.starts_with(' ')) piece.erase(0, 1);
    const auto first = static_cast<unsigned char>(piece[0]);
    const bool shown = piece.size() != 1 || std::isprint(first) || std::isspace(first);
    if (shown) std::fputs(piece.c_str(), stdout);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    if (words.size() == 3 && words[0] == "batch") write_batch(words[1], words[2]);
    else if (words.size() == 4 && words[0] == "compare") compare(words[1], words[2], words[3]);
    else if (words.size() == 4 && words[0] == "generate") generate(words[1], words[2], std::stoi(words[3]));
    else return std::fprintf(stderr, "peers batch|compare|generate ...\n"), 2;
  } catch (const std::exception& error) {
    return std::fprintf(stderr, "peers: %s\n", error.what()), 1;
  }
  return failures > 0;
}
