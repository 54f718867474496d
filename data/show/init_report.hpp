#pragma once
// What placements do to gradients and activations before the first step: one pass of each model, no training.

#include "data/options/options.hpp"

// The sub-command.
void run_init_report(const Command& command);
