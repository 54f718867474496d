#pragma once
// Reads command lines and config files into options.

#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

// The parsers throw std::invalid_argument for bad input, and CommandLineExit with the text to print for --help,
// --version, completion and man.
struct CommandLineExit {
  std::string text;
};
Command parse_command_line(int argc, char** argv);

// Parses words that start with a command's name. `more` are further options: ("lr", "0.001").
Command parse_words(std::vector<std::string> words, const std::vector<std::pair<std::string, std::string>>& more = {},
                    const std::string& program = "");

// Returns the command with the options in `toml` added. The command's own options win. Errors name `file`.
Command parse_on_top(const Command& command, const std::string& toml, const std::string& file = "");

// Returns the words that parse_words() reads as this command.
std::vector<std::string> words_of(const Command& command);

// Returns the command line of `train` that a comparison passes to its runs.
std::vector<std::string> words_for_train(const Command& compare);

// Returns a command's options as TOML, without --out, --resume, --force and --dry-run.
std::string said_as_toml(const Command& command);

// Reads the options of `train` from TOML that to_toml() or a user wrote.
TrainOptions from_toml(const std::string& toml, const std::string& file = "");
