#pragma once
// Checks a Config and fills in what the user left open.

#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "layers/config/config.hpp"

// A number of a Config and its range, limits included. resolve() checks it, and the options show it.
struct ConfigNumber {
  const char* name;  // of the setting
  std::variant<int Config::*, float Config::*, double Config::*, std::optional<double> Config::*> member;
  double low, high;
  bool derived_if_0 = false;  // 0: derived from the others
};
const std::vector<ConfigNumber>& config_numbers();

// One line that says what is wrong with a Config and what to do: "heads 3 does not divide channels 128: ...".
struct ConfigError : std::invalid_argument {
  explicit ConfigError(const std::string& marked);
  std::string marked;  // the same with the names of settings in braces: "{heads} 3 does not divide {channels} 128: ..."
};
// A marked text with `before` in front of each name.
std::string spelled(const std::string& marked, const std::string& before);

// Fills in what was left open and checks everything; throws ConfigError, or std::invalid_argument for an unknown
// placement. Idempotent.
Config resolve(Config config);
