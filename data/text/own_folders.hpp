#pragma once
// Folders that this program wrote. Nothing in them is text to learn from.

#include <string>
#include <string_view>

// How the config.toml of a run and the comparison.toml of a comparison begin.
inline constexpr std::string_view kRunStart = "# Every option in force";
inline constexpr std::string_view kComparisonStart = "# The options of this comparison";

// True for the folder of a run or a comparison, by the beginning of that file.
bool is_own_folder(const std::string& folder);
