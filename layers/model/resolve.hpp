#pragma once
// Checks a Config and fills in the values that the user left open.

#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "layers/config/config.hpp"

// A number of a Config and its range, limits included. resolve() checks it, and the options show it.
struct ConfigNumber {
  const char* name;  // the setting's name
  std::variant<int Config::*, float Config::*, double Config::*, std::optional<double> Config::*> member;
  double low, high;
  bool derived_if_0 = false;  // 0 stands for a value derived from the others
};
const std::vector<ConfigNumber>& config_numbers();

// One line that says what is wrong with a Config and what to do: "heads 3 does not divide channels 128: ...".
struct ConfigError : std::invalid_argument {
  explicit ConfigError(const std::string& marked);
  std::string marked;  // the line with the names of settings in braces: "{heads} 3 does not divide {channels} 128: ..."
};
// Returns a marked text with `before` instead of the braces around each name.
std::string spelled(const std::string& marked, const std::string& before);

// Fills in open values and checks everything. Throws ConfigError, or std::invalid_argument for an unknown placement.
// Idempotent.
Config resolve(Config config);
