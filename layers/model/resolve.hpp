#pragma once
// Checks a Config and fills in the values that the user left open.

#include <stdexcept>
#include <string>
#include <vector>

#include "layers/config/config.hpp"

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

// Returns the resolved Config of the encoder that a decoder with this resolved Config reads. Choices that the decoder
// left open are made again by the encoder's placement, norm and depth.
Config encoder_of(const Config& decoder);

// Returns the Config of each of a model's stacks: the encoder's, if there is one, and its own.
std::vector<Config> stack_configs(const Config& config);
