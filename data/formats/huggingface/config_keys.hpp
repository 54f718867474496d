#pragma once
// The fields of a config.json, and the values of its keys. All of these throw std::runtime_error that names the key.

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "layers/config/config.hpp"

// A field of config.json, or a few that belong together.
struct ConfigField {
  std::function<void(Config&, const nlohmann::json& file)> read;
  std::function<void(nlohmann::json& file, const Config&)> write;
};
using ConfigFields = std::vector<ConfigField>;

// A key of config.json, and another name that transformers takes for it.
struct ConfigKey {
  const char *name, *other;
  ConfigKey(const char* name, const char* other = nullptr) : name(name), other(other) {}
};

[[noreturn]] void refuse_key(const std::string& key, const std::string& why);

// Returns the key's value, or null.
nlohmann::json value_or_null(const nlohmann::json& file, const char* key);

// Returns the key's value under either name, or null. Throws if the two disagree.
nlohmann::json value_at(const nlohmann::json& file, const ConfigKey& key);
bool has_key(const nlohmann::json& file, const ConfigKey& key);

int whole_value(const std::string& key, const nlohmann::json& value);      // from 0 to 2^30
double number_value(const std::string& key, const nlohmann::json& value);  // that a float can hold

// Set a member of Config from a key's value of its type.
void set_member(int& member, const std::string& key, const nlohmann::json& value);
void set_member(float& member, const std::string& key, const nlohmann::json& value);
