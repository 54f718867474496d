#pragma once
// The table of options: the rows of each command.

#include <vector>

#include "settings.hpp"
#include "train_settings.hpp"

// The options of a command, in the order of --help-all.
const std::vector<CommandSetting>& settings_of(Command::Kind kind);

// True if the user has given an option with this trait.
bool said_any(const Command& command, bool Traits::*trait);
