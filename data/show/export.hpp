#pragma once
// The sub-command export: a trained model in the format of another program.

#include "data/options/options.hpp"

void run_export(const ExportOptions& options);
