#include "field_kinds.hpp"

#include <algorithm>
#include <string_view>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"

using nlohmann::json;

namespace field_kinds {

bool flag_value(const json& file, const char* key, bool absent) {
  if (!file.contains(key)) return absent;
  if (!file.at(key).is_boolean()) refuse_key(key, "is not true or false");
  return file.at(key);
}

ConfigField size(const ConfigKey& key, int Config::*member, std::optional<int> absent) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            if (value.is_null() && (!absent || has_key(file, key))) refuse_key(key.name, "is missing");
            c.*member = value.is_null() ? *absent : whole_value(key.name, value);
          },
          [=](json& file, const Config& c) { file[key.name] = c.*member; }};
}

ConfigField optional_size(const char* key, int Config::*member, int absent) {
  return {[=](Config& c, const json& file) {
            c.*member = absent;
            if (file.contains(key)) c.*member = file.at(key).is_null() ? 0 : whole_value(key, file.at(key));
          },
          [=](json& file, const Config& c) { file[key] = c.*member; }};
}

ConfigField written(const char* key, int Config::*member) {
  return {[](Config&, const json&) {}, [=](json& file, const Config& c) { file[key] = c.*member; }};
}

ConfigField factor(const char* key, std::optional<double> Config::*member, std::optional<double> absent) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            const std::optional<double> given = value.is_null() ? absent : number_value(key, value);
            if (given) c.*member = static_cast<float>(*given);
          },
          [=](json& file, const Config& c) { file[key] = shortest(static_cast<float>(*(c.*member))); }};
}

ConfigField epsilon(const char* key, double absent) {
  return {[=](Config& c, const json& file) {
            c.norm_eps = static_cast<float>(file.contains(key) ? number_value(key, file.at(key)) : absent);
          },
          [=](json& file, const Config& c) { file[key] = shortest(c.norm_eps); }};
}

ConfigField tied(bool absent) {
  constexpr const char* kKey = "tie_word_embeddings";
  return {[=](Config& c, const json& file) {
            c.tied = flag_value(file, kKey, absent);
          },
          [=](json& file, const Config& c) { file[kKey] = c.tied; }};
}

ConfigField fixed(const char* key, const json& only, const json& same) {
  return {[=](Config&, const json& file) {
            const json value = value_at(file, key);
            const bool off = only.empty() || only == false;
            if (file.contains(key) && value != only && !(value.is_null() ? off : value == same))
              refuse_key(key, "is " + for_terminal(to_text(value)) + "; train_gpt has " + to_text(only) + " only");
          },
          [=](json& file, const Config&) { file[key] = only; }};
}

ConfigField activation(const char* key, const char* absent, std::span<const ActivationName> names) {
  return {[=](Config& c, const json& file) {
            const json value = value_at(file, key);
            const auto name = std::find_if(names.begin(), names.end(), [&](const ActivationName& n) {
              return file.contains(key) ? value == n.theirs : std::string_view(n.theirs) == absent;
            });
            if (name == names.end()) refuse_key(key, "is " + for_terminal(to_text(value)) + ", which train_gpt lacks");
            c.activation = name->ours;
          },
          [=](json& file, const Config& c) {
            for (const ActivationName& n : names)
              if (n.ours == c.activation && !file.contains(key)) file[key] = n.theirs;
          }};
}

ConfigField choice(const char* key, bool absent, void (*set)(Config&, bool), bool (*get)(const Config&)) {
  return {[=](Config& c, const json& file) {
            set(c, flag_value(file, key, absent));
          },
          [=](json& file, const Config& c) { file[key] = get(c); }};
}

ConfigField unless(const char* key, const json& only) { return {fixed(key, only).read, [](json&, const Config&) {}}; }

ConfigField required(const char* key, const char* other) {
  return {[=](Config&, const json& file) {
            if (value_at(file, {key, other}).empty()) refuse_key(key, "is missing");
          },
          [](json&, const Config&) {}};
}

ConfigField always(void (*set)(Config&)) {
  return {[=](Config& c, const json&) { set(c); }, [](json&, const Config&) {}};
}

ConfigFields append(ConfigFields a, const ConfigFields& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace field_kinds
