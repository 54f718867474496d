#pragma once
// The table of options: the rows of each command.

#include <string>
#include <vector>

#include "settings.hpp"
#include "train_settings.hpp"

// The options of a command, in the order of --help-all.
const std::vector<CommandSetting>& settings_of(Command::Kind kind);

// True if the user has given an option with this trait.
bool said_any(const Command& command, bool Traits::*trait);

// The names that --to and --dtype of export take. data/formats defines these functions, because its table of formats is
// their only list and options include nothing above them.
std::vector<std::string> format_names();
std::vector<std::string> format_dtypes();
