#pragma once
// Generates scripts for tab completion from the table of options. A script contains the whole table and never runs the
// program.

#include <string>

// Returns the script for "bash", "zsh" or "fish". Throws std::invalid_argument for another shell.
std::string completion_script(const std::string& shell);
