#pragma once
// The sub-command export: writes a trained model in another program's format.

#include "data/options/options.hpp"

void run_export(const ExportOptions& options);
