#pragma once
// Options that have no effect because of another option: --momentum with --optimizer adamw.

#include <string>
#include <vector>

#include "data/options/options.hpp"

// Returns a line for each option that some runs set to another value than the preset's, and that none of them reads:
// "--momentum has no effect with --optimizer adamw". `runs` are the options as the user gave them, before resolved().
std::vector<std::string> unused_options(const std::vector<TrainOptions>& runs);

// Returns the names of the options that a run sets and does not read.
std::vector<std::string> unused_option_names(const TrainOptions& run);
