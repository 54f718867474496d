#include "gguf_rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"
#include "layers/embedding/position.hpp"

using nlohmann::json;

namespace {

constexpr const char* kAttention = "rope.scaling.attn_factor";

// R of a Config that may leave the head dimension open.
int rotated_channels(Config c) {
  if (c.head_dim == 0) c.head_dim = c.channels / std::max(c.n_head, 1);
  return c.rope_dims();
}

// ---- linear and yarn -------------------------------------------------------------------------------------

struct ScalingType {
  const char* name;
  RopeScaling ours;
};
constexpr ScalingType kTypes[] = {
    {"none", RopeScaling::none}, {"linear", RopeScaling::linear}, {"yarn", RopeScaling::yarn},
    {"longrope", RopeScaling::none}};  // longrope_tensors() reads the rest

float number_at(const json& keys, const char* key, float absent) {
  return keys.contains(key) ? static_cast<float>(number_value(key, keys.at(key))) : absent;
}

// In llama.cpp, a file without a type is linear, and 0 is no factor.
RopeScaling type_in(const json& keys, float factor) {
  if (!keys.contains(kRopeType)) return factor == 1 ? RopeScaling::none : RopeScaling::linear;
  const bool lists = keys.contains(kShortFactors) || keys.contains(kLongFactors);
  for (const ScalingType& row : kTypes)
    if (keys.at(kRopeType) == row.name && (row.name != std::string_view("longrope") || lists)) return row.ours;
  refuse_key(kRopeType, "is " + for_terminal(to_text(keys.at(kRopeType))) + ", which train_gpt lacks");
}

double usual_magnitude(const Config& c) {
  return c.rope_scaling == RopeScaling::yarn ? .1 * std::log(static_cast<double>(c.rope_factor)) + 1 : 1;
}

// If the original context is so short, or the base so low, that the pairs that make 32 turns and 1 turn in it are not
// in this order, llama.cpp stretches other pairs than transformers does.
bool yarn_is_ordered(const Config& c) {
  const int R = rotated_channels(c);
  const double original = c.rope_original > 0 ? c.rope_original : c.context;
  const auto pair_with = [&](double turns) {
    return R * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(static_cast<double>(c.rope_theta)));
  };
  return std::max(std::floor(pair_with(32)), 0.) <= std::min(std::ceil(pair_with(1)), R - 1.);
}

void read_scaling(Config& c, const json& keys, bool magnitude) {
  float factor = number_at(keys, kRopeFactor, number_at(keys, kOldRopeFactor, 1));
  if (factor == 0) factor = 1;
  c.rope_scaling = type_in(keys, factor);
  if (c.rope_scaling == RopeScaling::none) return;
  c.rope_factor = factor;
  c.rope_original = keys.contains(kRopeOriginal) ? whole_value(kRopeOriginal, keys.at(kRopeOriginal)) : 0;
  if (c.rope_original == 0) c.rope_original = c.context;
  if (c.rope_scaling == RopeScaling::yarn && !yarn_is_ordered(c))
    refuse_key(kRopeOriginal, "is " + std::to_string(c.rope_original) + ", which is too short for YaRN");
  const float attention = number_at(keys, kAttention, 1);
  if (attention != 1 && !magnitude) refuse_key(kAttention, "is not 1 in an architecture that applies it to all layers");
  if (attention != 1) c.rope_magnitude = attention * usual_magnitude(c);
  if (keys.contains(kRopeAsGiven)) c.rope_magnitude = keys.at(kRopeAsGiven);
}

void write_scaling(json& keys, const Config& c, bool magnitude) {
  if (c.rope_scaling != RopeScaling::linear && c.rope_scaling != RopeScaling::yarn) return;
  if (c.rope_scaling == RopeScaling::yarn && !yarn_is_ordered(c)) return;
  for (const ScalingType& row : kTypes)
    if (row.ours == c.rope_scaling) keys[kRopeType] = row.name;
  keys[kRopeFactor] = c.rope_factor;
  keys[kRopeOriginal] = c.rope_original;
  const auto attention = static_cast<float>(*c.rope_magnitude / usual_magnitude(c));
  if (attention != 1 && !magnitude) return;
  if (attention != 1) keys[kAttention] = attention;
  keys[kRopeAsGiven] = *c.rope_magnitude;
}

// ---- llama3 ----------------------------------------------------------------------------------------------

// llama.cpp's converter computes the numbers in floats, so their reciprocals are off by as much.
constexpr double kRounding = 2e-6;

std::vector<double> frequencies_of(const Config& c, RopeScaling scaling) {
  RopeAngles angles(c.rope_theta);
  angles.scaling = scaling;
  angles.factor = c.rope_factor;
  angles.original = c.rope_original;
  angles.slow = c.rope_slow;
  angles.fast = c.rope_fast;
  return rope_frequencies(rotated_channels(c), angles);
}

// Returns the numbers by which the settings of llama3 divide the frequencies.
std::vector<double> divisors(const Config& c) {
  std::vector<double> numbers = frequencies_of(c, RopeScaling::none);
  const std::vector<double> stretched = frequencies_of(c, RopeScaling::llama3);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] /= stretched[i];
  return numbers;
}

// A pair of channels. `kept` is the share of its frequency that is not stretched: f/n = kept·f + (1 − kept)·f/factor.
struct Pair {
  double frequency, kept;
};

// The frequencies up to which all is stretched, and from which on nothing is. Between them, `kept` is linear.
struct Ramp {
  double all, nothing;
};

Ramp ramp_through(const Pair& fast, const Pair& slow) {
  const double slope = (fast.kept - slow.kept) / (fast.frequency - slow.frequency);
  return {slow.frequency - slow.kept / slope, fast.frequency + (1 - fast.kept) / slope};
}

// Pairs from the fastest to the slowest, which is stretched by the whole factor.
struct Pairs {
  std::vector<Pair> pairs;
  size_t mixed = 0, stretched = 0;  // the first that is stretched at all, and the first that is stretched by the factor

  Pairs(const Config& c, const std::vector<double>& numbers) {
    const std::vector<double> frequencies = frequencies_of(c, RopeScaling::none);
    const double factor = numbers.back();
    for (size_t i = 0; i < numbers.size(); ++i)
      pairs.push_back({frequencies[i], (1 / numbers[i] - 1 / factor) / (1 - 1 / factor)});
    const auto index_of = [&](const auto& fits) { return std::ranges::find_if(pairs, fits) - pairs.begin(); };
    mixed = index_of([](const Pair& p) { return p.kept < 1; });
    stretched = index_of([](const Pair& p) { return p.kept <= 0; });
  }

  // Two mixed pairs fix the ramp. If there are fewer, returns the steepest one.
  Ramp ramp() const {
    if (stretched - mixed > 1) return ramp_through(pairs[mixed], pairs[stretched - 1]);
    if (stretched == mixed) return ramp_through(pairs[mixed - 1], pairs[mixed]);
    const Ramp slower = ramp_through(pairs[mixed], pairs[stretched]);
    if (mixed == 0) return slower;
    const Ramp faster = ramp_through(pairs[mixed - 1], pairs[mixed]);
    return slower.nothing - slower.all < faster.nothing - faster.all ? slower : faster;
  }

  // The original context, if the ramp goes from 1 turn to 4 turns in it, as in all models of Llama.
  double usual_original() const {
    constexpr double kTurn = 2 * std::numbers::pi;
    if (stretched - mixed > 1) return kTurn / ramp().all;
    if (stretched == mixed) return kTurn * std::sqrt(4 / pairs[mixed - 1].frequency / pairs[mixed].frequency);
    return kTurn * (1 + 3 * pairs[mixed].kept) / pairs[mixed].frequency;
  }
};

Config with_llama3(Config c, double factor, double original, double slow, double fast) {
  c.rope_scaling = RopeScaling::llama3;
  c.rope_factor = static_cast<float>(factor);
  c.rope_original = static_cast<int>(original);
  c.rope_slow = static_cast<float>(slow);
  c.rope_fast = static_cast<float>(fast);
  return c;
}

bool gives(const Config& c, const std::vector<double>& numbers) {
  if (!(c.rope_slow > 0 && c.rope_slow < c.rope_fast)) return false;
  const std::vector<double> ours = divisors(c);
  for (size_t i = 0; i < numbers.size(); ++i)
    if (!(std::abs(1 / ours[i] - 1 / numbers[i]) <= kRounding)) return false;
  return true;
}

// Returns the settings that give these numbers: Llama's if they do, or others with the same ramp.
std::optional<Config> with_ramp(const Config& c, const std::vector<double>& numbers) {
  const double factor = numbers.back();
  const Pairs pairs(c, numbers);
  if (pairs.stretched == 0) return {};
  for (const int unit : {1024, 128, 8, 1}) {
    const double original = std::round(pairs.usual_original() / unit) * unit;
    if (!(original > 0 && original < 1 << 30)) continue;
    if (const Config usual = with_llama3(c, factor, original, 1, 4); gives(usual, numbers)) return usual;
  }
  const double turns = c.context / (2 * std::numbers::pi);
  const Ramp ramp = pairs.ramp();
  const Config other = with_llama3(c, factor, c.context, turns * ramp.all, turns * ramp.nothing);
  if (gives(other, numbers)) return other;
  return {};
}

std::optional<Config> fitted(Config c, const std::vector<double>& numbers) {
  const double factor = numbers.back();
  if (std::ranges::count(numbers, factor) < std::ssize(numbers))
    return factor > 1 && std::isfinite(factor) ? with_ramp(c, numbers) : std::nullopt;
  if (!(factor >= 1) || !std::isfinite(factor)) return {};
  c.rope_scaling = factor == 1 ? RopeScaling::none : RopeScaling::linear;
  c.rope_factor = static_cast<float>(factor);
  c.rope_original = c.context;
  return c;
}

void read_factors(Config& c, const std::vector<double>& numbers) {
  if (c.rope_scaling != RopeScaling::none) refuse_key(kRopeFactors, "and rope.scaling.factor both stretch RoPE");
  const size_t pairs = rotated_channels(c) / 2;
  if (numbers.size() != pairs || pairs == 0)
    refuse_key(kRopeFactors, "has " + std::to_string(numbers.size()) + " numbers, and the header asks for " +
                                 std::to_string(pairs));
  const std::optional<Config> found = fitted(c, numbers);
  if (!found) refuse_key(kRopeFactors, "has numbers that Llama 3's formula does not give, and train_gpt has no others");
  c = *found;
}

}  // namespace

ConfigField rope_scaling_keys(bool magnitude) {
  return {[=](Config& c, const json& keys) { read_scaling(c, keys, magnitude); },
          [=](json& keys, const Config& c) { write_scaling(keys, c, magnitude); }};
}

ConfigField rope_factors_tensor() {
  return {[](Config& c, const json& keys) {
            const json numbers = keys.value(kRopeFactors, json());
            if (numbers.is_array()) read_factors(c, numbers);
            if (numbers.is_object())
              c = with_llama3(c, numbers.at("factor"), numbers.at("original"), numbers.at("slow"), numbers.at("fast"));
          },
          [](json& keys, const Config& c) {
            if (c.rope_scaling == RopeScaling::llama3)
              keys[kRopeFactors] = {{"factor", c.rope_factor}, {"original", c.rope_original}, {"slow", c.rope_slow},
                                    {"fast", c.rope_fast}};
          }};
}

namespace {

// A list of numbers as a Config has it: 1.0,1.05,2.0.
std::string factors_in(const Config& c, const json& keys, const char* name) {
  const json numbers = keys.value(name, json());
  if (!numbers.is_array()) refuse_key(name, "is missing");
  const size_t pairs = rotated_channels(c) / 2;
  if (numbers.size() != pairs)
    refuse_key(name, "has " + std::to_string(numbers.size()) + " numbers, and the header asks for " +
                         std::to_string(pairs));
  std::string text;
  for (const json& number : numbers) {
    if (!(number_value(name, number) > 0)) refuse_key(name, "has a number that is not positive");
    text += (text.empty() ? "" : ",") + to_text(number);
  }
  return text;
}
json numbers_of(const std::string& list) { return parse_json("[" + list + "]"); }

void read_longrope(Config& c, const json& keys) {
  if (c.rope_scaling != RopeScaling::none) refuse_key(kLongFactors, "and rope.scaling.factor both stretch RoPE");
  c.rope_scaling = RopeScaling::longrope;
  c.rope_short = factors_in(c, keys, kShortFactors);
  c.rope_long = factors_in(c, keys, kLongFactors);
  c.rope_original = keys.contains(kRopeOriginal) ? whole_value(kRopeOriginal, keys.at(kRopeOriginal)) : c.context;
  const float factor = c.rope_original > 0 ? static_cast<float>(c.context) / static_cast<float>(c.rope_original) : 1;
  c.rope_factor = keys.value(kFactorAsGiven, std::max(factor, 1.f));
  c.rope_magnitude = keys.value(kRopeAsGiven, double(number_at(keys, kAttention, 1)));
}

void write_longrope(json& keys, const Config& c) {
  if (c.rope_scaling != RopeScaling::longrope) return;
  keys[kShortFactors] = numbers_of(c.rope_short);
  keys[kLongFactors] = numbers_of(c.rope_long);
  keys[kRopeOriginal] = c.rope_original;
  keys[kAttention] = static_cast<float>(*c.rope_magnitude);
  keys[kRopeAsGiven] = *c.rope_magnitude;
  keys[kFactorAsGiven] = c.rope_factor;
}

}  // namespace

ConfigField longrope_tensors() {
  return {[](Config& c, const json& keys) {
            if (keys.contains(kShortFactors) || keys.contains(kLongFactors)) read_longrope(c, keys);
          },
          write_longrope};
}

std::map<std::string, std::vector<float>> rope_tensors(const Config& config) {
  const auto floats = [](const std::vector<double>& numbers) {
    return std::vector<float>(numbers.begin(), numbers.end());
  };
  if (config.position != Position::rope) return {};
  if (config.rope_scaling == RopeScaling::llama3) return {{kRopeFactors, floats(divisors(config))}};
  if (config.rope_scaling != RopeScaling::longrope) return {};
  return {{kShortFactors, floats(::rope_factors(config.rope_short))},
          {kLongFactors, floats(::rope_factors(config.rope_long))}};
}
