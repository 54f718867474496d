#pragma once
// The settings of a run as they are stored: TOML in config.toml, JSON in checkpoints.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "options.hpp"

// A line for every setting that has a value. Settings that are open in `given` become comments, so that reading the
// file back leaves them open; their values are those of `in_force`.
std::string to_toml(const TrainOptions& in_force, const TrainOptions& given);
std::string to_toml(const TrainOptions& in_force);        // closed(), without comments
std::string model_to_toml(const TrainOptions& in_force);  // only the model

// Every setting that has a value, by name. Text that is not UTF-8 becomes the array of its bytes.
nlohmann::json to_json(const TrainOptions& in_force);

// Throws std::invalid_argument for an unknown setting and for a value outside its range.
TrainOptions train_options_of(const nlohmann::json& settings);

// The options in which two runs differ, except `except`: "--lr is 0.001 there and 0.002 here".
std::vector<std::string> differences(const TrainOptions& there, const TrainOptions& here,
                                     const std::vector<std::string>& except);
