#pragma once
// Options that have no effect because of another option: --momentum with --optimizer adamw.

#include <string>
#include <vector>

#include "data/options/options.hpp"

// A line for each option that some of the runs set, to another value than the preset's, and none of those reads:
// "--momentum has no effect with --optimizer adamw". `runs` has the options as the user gave them, before resolved().
std::vector<std::string> unused_options(const std::vector<TrainOptions>& runs);

// The names of the options that a run sets and does not read.
std::vector<std::string> unused_option_names(const TrainOptions& run);
