#pragma once
// The sub-command sample: text to standard output, remarks to standard error.

#include "data/options/options.hpp"

void run_sample(const SampleOptions& options);
