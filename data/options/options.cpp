#include "options.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "settings.hpp"

namespace {

// A line for every option that has a value; what is open in `given` becomes a comment.
std::string lines_of(TrainOptions in_force, TrainOptions given, bool training) {
  const std::vector<Setting> settings = settings_of(in_force, training), open = settings_of(given, training);
  std::string text;
  for (size_t i = 0; i < settings.size(); ++i) {
    const std::string value = settings[i].value();
    if (value == "\"\"" || value == "[]") continue;
    text += (open[i].open() ? "# " : "") + settings[i].name + " = " + value + "\n";
  }
  return text;
}

}  // namespace

TrainOptions closed(TrainOptions options) {
  options.config = resolved(options.config);
  options.min_lr = options.rate.min_lr;
  options.final_batches = static_cast<double>(final_batches(options));
  return options;
}

bool Command::said(const std::string& option) const {
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return word == option || word.starts_with(option + "="); });
}

std::string Command::located(const std::string& message) const {
  const size_t begin = message.find("--");
  if (begin == message.npos) return message;
  const size_t end = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-", begin);
  const auto origin = origins.find(message.substr(begin + 2, end - begin - 2));
  return origin == origins.end() || message.starts_with(origin->second) ? message : origin->second + message;
}

std::string to_toml(const TrainOptions& in_force, const TrainOptions& given) {
  return lines_of(closed(in_force), given, true);
}

std::string to_toml(const TrainOptions& in_force) { return to_toml(in_force, closed(in_force)); }

std::string model_to_toml(const TrainOptions& in_force) { return lines_of(closed(in_force), closed(in_force), false); }

Config resolved(const Config& config) {
  try {
    return resolve(config);
  } catch (const ConfigError& error) {
    throw std::invalid_argument(spelled(error.marked, "--"));
  }
}

namespace {

void check_batch(const TrainOptions& o) {
  const int64_t rows = int64_t(o.batch) * o.accumulate;
  if (rows > std::numeric_limits<int>::max())
    throw std::invalid_argument("--batch " + std::to_string(o.batch) + " times --accumulate " +
                                std::to_string(o.accumulate) + " is " + std::to_string(rows) +
                                " sequences a step: at most 2147483647 can be counted");
}

void check_textbook(const TrainOptions& o) {
  const auto refuse = [](const std::string& why) { throw std::invalid_argument("--textbook " + why); };
  if (!o.textbook) return;
  if (o.diagnostics > 0) refuse("cannot be looked into: leave --diagnostics out");
  if (o.config.matmul != Matmul::fp32) refuse("computes in double: leave --matmul out");
  if (o.config.recompute) refuse("keeps all that backward needs: leave --recompute out");
}

}  // namespace

void complete(TrainOptions& o) {
  o.rate.min_lr = o.min_lr.value_or(o.rate.lr / 10);
  check_batch(o);
  check_textbook(o);
}

TrainOptions with_vocabulary(TrainOptions options) {
  if (options.config.vocab_size == 0) options.config.vocab_size = 256;
  return options;
}

void set_vocabulary(Config& config, int of_data) {
  if (config.vocab_size == 0) config.vocab_size = of_data;
  if (config.vocab_size < of_data)
    throw std::invalid_argument("--vocab-size " + std::to_string(config.vocab_size) + " is smaller than the " +
                                std::to_string(of_data) + " tokens of the data");
}

int64_t final_batches(const TrainOptions& o) {
  if (o.final_batches) return static_cast<int64_t>(*o.final_batches);
  // A training batch costs three forward passes, of which a tenth is 3/10.
  return std::max<int64_t>(1, o.steps * o.accumulate * 3 / 10);
}

std::vector<std::string> differences(const TrainOptions& there, const TrainOptions& here,
                                     const std::vector<std::string>& except) {
  TrainOptions a = closed(there), b = closed(here);
  const std::vector<Setting> in_a = settings_of(a), in_b = settings_of(b);
  std::vector<std::string> list;
  for (size_t i = 0; i < in_a.size(); ++i) {
    const std::string& name = in_a[i].name;
    if (in_a[i].value() == in_b[i].value() || std::find(except.begin(), except.end(), name) != except.end()) continue;
    list.push_back("--" + name + " is " + in_a[i].value() + " there and " + in_b[i].value() + " here");
  }
  return list;
}

// ---- small languages -------------------------------------------------------------------------------------

namespace {

// A number and one of the units behind it.
double with_unit(const std::string& text, const std::vector<std::pair<char, double>>& units, const char* what) {
  char* end = nullptr;
  double x = std::strtod(text.c_str(), &end);
  if (end != text.c_str() && *end && !end[1])
    for (const auto& [letter, factor] : units)
      if (std::tolower(*end) == letter) {
        x *= factor;
        ++end;
        break;
      }
  if (end == text.c_str() || *end || !(x > 0) || x > kLargest)
    throw std::invalid_argument("'" + text + "' is not " + what);
  return x;
}

}  // namespace

size_t parse_bytes(const std::string& text) {
  return static_cast<size_t>(
      with_unit(text, {{'k', 1e3}, {'m', 1e6}, {'g', 1e9}}, "a size: write 500k, 4M or 1000000"));
}

double parse_seconds(const std::string& text) {
  return with_unit(text, {{'s', 1}, {'m', 60}, {'h', 3600}}, "a time: write 90s, 10m or 2h");
}
