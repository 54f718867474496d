#pragma once
// The model card of an exported folder: README.md, with the metadata that hubs read between two lines "---" (YAML), and
// what the run's own files say about the training.

#include <string>

#include "data/run_directory/checkpoint.hpp"

inline constexpr const char* kModelCard = "README.md";

// Returns the card of a model that goes into the folder `out`. Names files without their folders, because cards are
// published. Reads config.toml, metrics.csv, outcome.json and history.jsonl next to the checkpoint if they are there.
// If one of them cannot be read, throws std::runtime_error or std::invalid_argument with its name.
std::string model_card(const TrainedModel& trained, const std::string& out);

// True if the folder has a card with the last line that model_card() writes. Whoever removes that line keeps the card.
bool has_own_card(const std::string& folder);

// Writes the card unless the folder has one of somebody else. Returns true if it did.
bool write_model_card(const std::string& folder, const std::string& card);
