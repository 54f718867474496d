#pragma once
// Stores a run's settings: as TOML in config.toml, as JSON in checkpoints.

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "command_settings.hpp"

// Writes a line for every setting that has a value. A setting the user left open in `given` is written as a comment,
// with its value in `in_force`, so that reading the file back leaves it open.
std::string to_toml(const TrainOptions& in_force, const TrainOptions& given);
std::string to_toml(const TrainOptions& in_force);        // of closed(), without comments
std::string model_to_toml(const TrainOptions& in_force);  // only the model

// Returns every setting that has a value, by name. Text that is not UTF-8 becomes the array of its bytes.
nlohmann::json to_json(const TrainOptions& in_force);

// Reads to_json()'s result. Throws std::invalid_argument for an unknown setting and for a value outside its range.
TrainOptions train_options_of(const nlohmann::json& settings);

// The options in which two runs differ, unless they are `ignored` (null: none): "--lr is 0.001 there and 0.002 here".
std::vector<std::string> differences(const TrainOptions& there, const TrainOptions& here,
                                     const std::function<bool(const Setting&)>& ignored = nullptr);
