#pragma once
// The sub-command init-report: measures gradients and activations of each model in a grid in one pass, without
// training.

#include "data/options/options.hpp"

void run_init_report(const Command& command);
