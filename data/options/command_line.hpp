#pragma once
// Command lines and config files, read into options.

#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

// Throws std::invalid_argument for bad input, and CommandLineExit with the text to print for --help, --version,
// completion and man.
struct CommandLineExit {
  std::string text;
};
Command parse_command_line(int argc, char** argv);

// The same for words that start with the name of a command. `more` are further options: ("lr", "0.001").
Command parse_words(std::vector<std::string> words, const std::vector<std::pair<std::string, std::string>>& more = {},
                    const std::string& program = "");

// The command with the options in `toml` added. Those that the command has already stay. `file` is named in errors.
Command parse_on_top(const Command& command, const std::string& toml, const std::string& file = "");

// The words that parse_words() reads as this command.
std::vector<std::string> words_of(const Command& command);

// The command line of `train` that a comparison hands on to its runs.
std::vector<std::string> words_for_train(const Command& compare);

// The options of a command as TOML, without --out, --resume, --force and --dry-run.
std::string said_as_toml(const Command& command);

// The options of `train` in a TOML file that to_toml() or a user wrote.
TrainOptions from_toml(const std::string& toml, const std::string& file = "");
