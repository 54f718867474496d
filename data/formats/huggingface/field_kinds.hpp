#pragma once
// Functions that make the fields which several classes have in common: a size, a switch, a fixed value. `absent` is the
// value that the class takes if config.json lacks the key. Reading throws std::runtime_error, which names the key.

#include <optional>
#include <span>

#include "config_keys.hpp"

namespace field_kinds {

// The key's value, true or false.
bool flag_value(const nlohmann::json& file, const char* key, bool absent);

// A whole number. Without `absent`, the key is required.
ConfigField size(const ConfigKey& key, int Config::*member, std::optional<int> absent = std::nullopt);

// A size. If it is null, resolve() derives it from others.
ConfigField optional_size(const char* key, int Config::*member, int absent = 0);

// A number that is null if the feature is off; ours is 0 then.
template <class T>
ConfigField optional_number(const char* key, T Config::*member, T absent = 0) {
  using nlohmann::json;
  return {[=](Config& c, const json& file) {
            c.*member = file.contains(key) ? 0 : absent;
            if (!value_at(file, key).is_null()) set_member(c.*member, key, file.at(key));
          },
          [=](json& file, const Config& c) { file[key] = c.*member == 0 ? json() : json(c.*member); }};
}

// A number that is written for other programs and not read.
ConfigField written(const char* key, int Config::*member);

// A factor that a model always has. Without `absent`, resolve() derives it if the key is absent or null.
ConfigField factor(const char* key, std::optional<double> Config::*member,
                   std::optional<double> absent = std::nullopt);

ConfigField epsilon(const char* key, double absent);
ConfigField tied(bool absent);

// A key that must have the only value that our layers support, or be absent. Null counts, too, if Python takes both for
// false. `same` is another value that the class takes for it.
ConfigField fixed(const char* key, const nlohmann::json& only, const nlohmann::json& same = {});

// A key that few files have, and that must have this value then. It is not written.
ConfigField unless(const char* key, const nlohmann::json& only);

// One of these keys must be there, and neither null nor {}.
ConfigField required(const char* key, const char* other);

struct ActivationName {
  const char* theirs;
  Activation ours;
};
// Names in transformers' ACT2FN. An activation is written with its first name.
inline constexpr ActivationName kActivationNames[] = {
    {"gelu_new", Activation::gelu_tanh}, {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh}, {"gelu", Activation::gelu}, {"relu", Activation::relu},
    {"silu", Activation::silu}, {"swish", Activation::silu}};
// `names` must live as long as the field.
ConfigField activation(const char* key, const char* absent, std::span<const ActivationName> names = kActivationNames);

// A choice between two wirings.
ConfigField choice(const char* key, bool absent, void (*set)(Config&, bool), bool (*get)(const Config&));

// A property of the class that config.json does not state.
ConfigField always(void (*set)(Config&));

// Returns the fields of a, and then the fields of b.
ConfigFields append(ConfigFields a, const ConfigFields& b);

}  // namespace field_kinds
