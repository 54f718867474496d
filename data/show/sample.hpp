#pragma once
// The sub-command sample: writes text to standard output and remarks to standard error.

#include "data/options/options.hpp"

void run_sample(const SampleOptions& options);
