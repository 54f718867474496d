#pragma once
// The commands of the program and what --help prints. No line is longer than 80 columns.

#include "options.hpp"

struct CommandRow {
  Command::Kind kind;
  const char *name, *help;
  const char* positional;  // the option that a word without dashes belongs to; "": none
  const char* usage;
  const char* common;      // the options that the short help shows, separated by spaces
  const char* examples;    // a line each
};
const std::vector<CommandRow>& commands();
const CommandRow& row_of(Command::Kind kind);

std::string help_of_program();
std::string help_of(const CommandRow& row, bool all);
