#pragma once
// The options of every command.

#include "options.hpp"
#include "setting.hpp"

// Those of the command `c.kind`, in the order of --help-all. `c` must outlive them.
std::vector<Setting> settings_of(Command& c);

// Those of `train` that decide what is trained and are written to config.toml; without `training`, only the model's.
std::vector<Setting> settings_of(TrainOptions& options, bool training = true);

// Those that are not a run's: of a comparison, and of one call. A comparison does not hand them on.
std::vector<Setting> settings_of_comparison(Command& c);
