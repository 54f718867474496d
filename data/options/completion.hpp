#pragma once
// Tab completion: scripts for shells, generated from the table of options. A script holds the whole table and never
// runs the program.

#include <string>

// The script for "bash", "zsh" or "fish". Throws std::invalid_argument for another shell.
std::string completion_script(const std::string& shell);
