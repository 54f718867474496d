#pragma once
// The main numbers of several runs side by side: one build for each kind of processor that this machine can be.

#include <string>
#include <vector>

// Prints a table with a column for each file that Report::write() wrote. Throws std::runtime_error.
void print_summary(const std::vector<std::string>& files);
