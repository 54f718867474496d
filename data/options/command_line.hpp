#pragma once
// Command lines and config files, read into options.

#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

// Throws std::invalid_argument for bad input, and CommandLineExit if help or the version was asked for.
struct CommandLineExit {
  std::string text;
};
Command parse_command_line(int argc, char** argv);

// The same command line on top of other options: what it does not say is as in `toml`, the text of `file`.
Command parse_on_top(const Command& command, const std::string& toml, const std::string& file = "");

// The options on a command line as TOML, but those that concern one call: --out, --resume, --force, --dry-run.
std::string said_as_toml(const Command& command);

// The words of `train` that a comparison hands on to its runs, and what they mean with an option or two besides:
// ("lr", "0.001"). Throws as parse_command_line does.
std::vector<std::string> words_for_train(const Command& compare);
TrainOptions train_options(const std::vector<std::string>& words,
                           const std::vector<std::pair<std::string, std::string>>& more);

// The options that to_toml wrote, or a person.
TrainOptions from_toml(const std::string& toml, const std::string& file = "");
