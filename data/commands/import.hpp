#pragma once
// The sub-command import: turns a model in another program's format into a run.

#include "data/options/options.hpp"

void run_import(const ImportOptions& options);
