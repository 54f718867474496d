#pragma once
// The files of a folder of transformers that train_gpt does not compute with: they travel with the model, and export
// writes them again. config.json is one of them, because it has more than a Config.

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "data/formats/foreign_model.hpp"

struct Architecture;

// The names of these files.
const std::vector<std::string>& companion_names();

// Reads those that the folder has. Throws std::runtime_error if one of them cannot be read or has more than 64 MB.
CompanionFiles read_companions(const std::string& folder);

// Return the chat template in Jinja that a folder or the files of a model say; "" if there is none.
std::string chat_template_in(const std::string& folder);
std::string chat_template_in(const CompanionFiles& files);

// Return the token that ends a text or an answer, or -1, and the chat template in Jinja, or "": as the model has
// learned them, or else as the files say that it came with.
int end_of_answers(const ExportedModel& exported);
std::string chat_template_of(const ExportedModel& exported);

// Returns the class that the model came as, or null.
const Architecture* architecture_of(const CompanionFiles& files);

// Returns the class as which a model goes back: the one that it came as if that can still express it, or else the first
// one that can. Throws std::invalid_argument if none can.
const Architecture& class_of(const Config& config, const CompanionFiles& files);

// Returns the text of config.json for a model of this class. `own` is what train_gpt writes for it. If the model came
// as this class, the text is the one that it came with, except for the values that have changed since and those in
// `decided`. It says the number type if it did before, or if that has changed.
std::string config_text(const CompanionFiles& files, const Architecture& architecture, const Config& config,
                        const nlohmann::json& own, const nlohmann::json& decided, bool changed_dtype);

// Returns the text of another JSON file that the model came with, with these values. The text is the same if they are.
std::string with_values(const std::string& text, const nlohmann::json& values);
