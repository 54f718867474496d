#pragma once
// Checks and completes the options of a comparison before its first run.

#include "summary.hpp"

// With --resume, and with --join if another process has begun the comparison, takes options that the command line
// leaves out from the comparison's directory. Throws std::invalid_argument if any of the runs could not begin or would
// not be comparable.
Comparison prepare_comparison(Command command);

// Writes the options into the comparison's directory. With --force, first removes the comparison in it.
void prepare_directory(const Comparison& comparison);
