#pragma once
#include "data/options/command_line.hpp"

// Parses a command line, "train_gpt" included.
inline Command parse_program_words(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  return parse_command_line(static_cast<int>(argv.size()), argv.data());
}
