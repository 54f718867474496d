#pragma once
// The sub-command import: makes a run of a model in the format of another program.

#include "data/options/options.hpp"

void run_import(const ImportOptions& options);
