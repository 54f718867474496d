#pragma once
// The options of a comparison, checked and worked out before its first run.

#include "summary.hpp"

// With --resume, and with --join if another process has begun it, takes what the command line leaves out from the
// comparison's directory. Throws std::invalid_argument if any of the runs could not begin or would not be comparable.
Comparison prepare_comparison(Command command);

// Writes the options into the comparison's directory. With --force, first removes the comparison in it.
void prepare_directory(const Comparison& comparison);
