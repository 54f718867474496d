#pragma once
// The sub-command info, and what train prints before its first step.

#include "data/options/options.hpp"

// Prints the text, model, machine, steps and directory of a run. `given` are the options before resolved().
void print_plan(const TrainOptions& options, const TrainOptions& given, const Dataset& data);

void run_info(const Command& command);
