#pragma once
// The sub-command sample: generates text. Writes the text to standard output and notes to standard error.

#include "data/options/options.hpp"

void run_sample(const SampleOptions& options);
