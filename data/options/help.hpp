#pragma once
// The program's commands, and what --help prints: lines of at most 80 columns.

#include <string>
#include <vector>

#include "command_settings.hpp"
#include "options.hpp"

struct CommandRow {
  Command::Kind kind;
  const char *name, *help;
  const char* positional;  // the option that words without dashes belong to, or ""
  const char* usage;
  const char* examples;    // one per line
};
const std::vector<CommandRow>& commands();
const CommandRow& command_row(Command::Kind kind);

// "train_gpt eval [RUN] --data FILE... [OPTIONS]"
std::string usage_of(const CommandRow& row);
// "--norm NAME", "--[no-]bias", "FILE..."
std::string spelling_of(const Setting& s);
// "normalization: layernorm, rmsnorm, ... (default: layernorm)"
std::string explanation_of(const Setting& s);

std::string help_of_program();
std::string help_of(const CommandRow& row, bool all);
