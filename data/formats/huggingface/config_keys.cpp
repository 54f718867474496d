#include "config_keys.hpp"

#include <cmath>
#include <stdexcept>

#include "data/files/json.hpp"
#include "data/strings/utf8.hpp"

using nlohmann::json;

void refuse_key(const std::string& key, const std::string& why) { throw std::runtime_error(key + " " + why); }

json value_or_null(const json& file, const char* key) { return key && file.contains(key) ? file.at(key) : json(); }

json value_at(const json& file, const ConfigKey& key) {
  const json value = value_or_null(file, key.name), other = value_or_null(file, key.other);
  if (!value.is_null() && !other.is_null() && value != other)
    refuse_key(key.other, "is another than " + std::string(key.name) + ": remove the one that does not hold");
  return value.is_null() ? other : value;
}

bool has_key(const json& file, const ConfigKey& key) {
  return file.contains(key.name) || (key.other && file.contains(key.other));
}

int whole_value(const std::string& key, const json& value) {
  constexpr int kMost = 1 << 30;
  const auto number = integer_between(value, 0, kMost);
  if (!number)
    refuse_key(key, "is not a whole number from 0 to " + std::to_string(kMost) + ": " + for_terminal(to_text(value)));
  return static_cast<int>(*number);
}

double number_value(const std::string& key, const json& value) {
  if (!value.is_number() || !std::isfinite(value.get<float>()))
    refuse_key(key, "is not a number that a float can hold: " + for_terminal(to_text(value)));
  return value;
}

void set_member(int& member, const std::string& key, const json& value) { member = whole_value(key, value); }
void set_member(float& member, const std::string& key, const json& value) {
  member = static_cast<float>(number_value(key, value));
}
