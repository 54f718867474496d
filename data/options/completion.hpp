#pragma once
// Tab completion. A short script for each shell asks `train_gpt complete WORDS...` what the last word can become, so
// that the table of options answers and no script repeats it.

#include <string>
#include <vector>

// Returns the script for "bash", "zsh" or "fish". Throws std::invalid_argument for another shell.
std::string completion_script(const std::string& shell);

// Returns what the last of `words`, which begin with the command, can become. The first line is "files" or "folders" if
// a path is possible, or else "none". Each other line is a word, with a tab and its explanation if it has one. After
// "--option=" the word is the value alone.
std::string completions(std::vector<std::string> words);
