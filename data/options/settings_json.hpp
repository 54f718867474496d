#pragma once
// The settings of a run as JSON, by their names: what checkpoints hold.

#include <nlohmann/json.hpp>

#include "options.hpp"

// Every setting with its value in force. A text that is not UTF-8 becomes the array of its bytes.
nlohmann::json to_json(const TrainOptions& in_force);

// Throws std::invalid_argument for an unknown setting and for a value that it does not take.
TrainOptions train_options_of(const nlohmann::json& settings);
