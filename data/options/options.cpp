#include "options.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "data/strings/utf8.hpp"

namespace {

using Units = std::vector<std::pair<std::string, double>>;  // names separated by spaces, and the size of the unit

// Parses a positive number with an optional unit, in upper or lower case: "10m", "10 min".
double with_unit(const std::string& text, const Units& units, const char* option, const char* expected) {
  char* end = nullptr;
  double x = std::strtod(text.c_str(), &end);
  std::string given = end;
  given.erase(0, std::min(given.find_first_not_of(' '), given.size()));
  std::transform(given.begin(), given.end(), given.begin(), [](unsigned char c) { return std::tolower(c); });
  bool known = given.empty();
  for (const auto& [names, size] : units)
    if (!known && given.find(' ') == given.npos && (" " + names + " ").find(" " + given + " ") != names.npos) {
      x *= size;
      known = true;
    }
  if (!known || end == text.c_str() || !(x > 0) || x > kLargest)
    throw std::invalid_argument(option + (" " + one_line(text)) + " is not " + expected);
  return x;
}

}  // namespace

bool Command::said(const std::string& option) const {
  return std::any_of(given.begin(), given.end(), [&](const Given& g) { return g.name == option; });
}

std::string Command::located(const std::string& message) const {
  const size_t begin = message.find("--");
  if (begin == message.npos) return message;
  const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-", begin);
  const std::string option = message.substr(begin + 2, end - begin - 2);
  for (const Given& g : given)
    if (g.name == option && !message.starts_with(g.where)) return g.where + message;
  return message;
}

Config resolved(const Config& config) {
  try {
    return resolve(config);
  } catch (const ConfigError& error) {
    throw std::invalid_argument(spelled(error.marked, "--"));
  }
}

void complete(TrainOptions& o) {
  o.mask_fraction = o.config.objective == Objective::mlm ? o.config.mask_fraction : 0;
  o.reads_pairs = o.config.objective == Objective::pairs;
  o.hides_spans = o.config.objective == Objective::span;
  o.rate.min_lr = o.min_lr.value_or(o.rate.lr / 10);
  const RunOptimizer& by = *o.optimizer;
  o.optimizer_options.beta2 = o.beta2.value_or(by.beta2);
  const float norm_decay = o.optimizer_options.norm_decay;
  o.optimizer_options.output_norm_decay = o.output_norm_decay.value_or(norm_decay);
  o.optimizer_options.momentum = o.momentum.value_or(by.momentum);
  o.optimizer_options.nesterov = o.nesterov.value_or(by.nesterov);
  if (o.optimizer_options.cautious_decay && by.reads(&Optimizer::decays_gradient))
    throw std::invalid_argument("--cautious-decay needs a decay apart from the gradient: choose another --optimizer "
                                "than " + std::string(by.name));
  const int64_t rows = int64_t(o.batch) * o.accumulate;
  if (rows > std::numeric_limits<int>::max())
    throw std::invalid_argument("--batch " + std::to_string(o.batch) + " times --accumulate " +
                                std::to_string(o.accumulate) + " is " + std::to_string(rows) +
                                " sequences per step: choose at most 2147483647");
  const std::string lanes = "--lanes " + std::to_string(o.lanes);
  if (!std::has_single_bit(static_cast<unsigned>(o.lanes)))
    throw std::invalid_argument(lanes + " is not a power of two: choose 1, 2, 4, ...");
  if (o.accumulate % o.lanes != 0)
    throw std::invalid_argument(lanes + " does not divide --accumulate " + std::to_string(o.accumulate) +
                                ": every lane takes the same number of micro-batches");
  if (o.config.lora_rank > 0 && !o.train_only.empty())
    throw std::invalid_argument("--lora trains its adapters alone: leave --train-only out");
  for (const RateGroup& group : kRateGroups)
    if (o.*group.rate && o.rate.lr == 0)
      throw std::invalid_argument("--" + std::string(group.option) + " needs --lr above 0: both follow one schedule");
  if (o.lr_head && o.config.tied) throw std::invalid_argument("--lr-head needs a classifier of its own: add --no-tied");
  if (!o.textbook) return;
  if (o.optimizer_options.cautious_decay)
    throw std::invalid_argument("--textbook decays every weight: leave --cautious-decay out");
  if (o.diagnostics > 0) throw std::invalid_argument("--textbook does not write diagnostics: leave --diagnostics out");
  if (o.config.matmul != Matmul::fp32) throw std::invalid_argument("--textbook computes in double: leave --matmul out");
  if (o.frozen_weights != NumberType::fp32)
    throw std::invalid_argument("--textbook reads floats: leave --frozen-weights out");
  if (o.moments != NumberType::fp32) throw std::invalid_argument("--textbook keeps floats: leave --moments out");
  if (o.config.recompute != Recompute::none)
    throw std::invalid_argument("--textbook keeps all activations: leave --recompute out");
}

TrainOptions closed(TrainOptions options) {
  options.config = resolved(options.config);
  options.min_lr = options.rate.min_lr;
  options.eval_every = eval_every(options);
  options.final_batches = static_cast<double>(final_batches(options));
  return options;
}

TrainOptions in_full(TrainOptions given) {
  TrainOptions o = closed(std::move(given));
  o.beta2 = o.optimizer_options.beta2;
  o.output_norm_decay = o.optimizer_options.output_norm_decay;
  o.momentum = o.optimizer_options.momentum;
  o.nesterov = o.optimizer_options.nesterov;
  o.lr_embedding = o.lr_embedding.value_or(o.rate.lr);
  if (!o.config.tied) o.lr_head = o.lr_head.value_or(o.rate.lr);
  o.lr_vector = o.lr_vector.value_or(o.rate.lr);
  o.lr_norm = o.lr_norm.value_or(*o.lr_vector);
  return o;
}

TrainOptions with_vocabulary(TrainOptions options) {
  if (options.config.vocab_size == 0) options.config.vocab_size = 256;
  return options;
}

void set_vocabulary(Config& config, int of_data) {
  if (config.vocab_size == 0) config.vocab_size = of_data;
  if (config.vocab_size < of_data)
    throw std::invalid_argument("--vocab-size " + std::to_string(config.vocab_size) + " is smaller than the " +
                                std::to_string(of_data) + " tokens of the data: raise it or leave it out");
}

int64_t steps_of_tokens(const TrainOptions& o, double tokens, double row) {
  return std::max<int64_t>(1, std::llround(tokens / (row * o.batch * static_cast<double>(o.accumulate))));
}

int64_t eval_every(const TrainOptions& o) {
  return o.eval_every.value_or(std::clamp<int64_t>(o.steps / 10, 1, 300));
}

int64_t final_batches(const TrainOptions& o) {
  if (o.final_batches) return static_cast<int64_t>(*o.final_batches);
  // A training batch costs as much as three forward passes, so a tenth of the time is 3/10 of the batches.
  const double batches = 3. * static_cast<double>(o.steps) * o.accumulate / 10;
  return static_cast<int64_t>(std::clamp(batches, 1., kLargest));
}

size_t parse_bytes(const std::string& text) {
  const Units units = {{"b", 1}, {"k kb", 1e3}, {"m mb", 1e6}, {"g gb", 1e9}};
  return static_cast<size_t>(with_unit(text, units, "--bytes", "a size: write 500k, 4M or 1000000"));
}

double parse_bandwidth(const std::string& text) {
  const Units units = {{"m mbit mbit/s", 1e6}, {"g gbit gbit/s", 1e9}};
  return with_unit(text, units, "--bandwidth", "a bandwidth: write 500M or 10G, in bits per second");
}

double parse_seconds(const std::string& text) {
  const Units units = {{"s sec secs second seconds", 1}, {"m min mins minute minutes", 60},
                       {"h hr hrs hour hours", 3600}, {"d day days", 86400}};
  return with_unit(text, units, "--for", "a time: write 90s, 10m or 2h");
}
