#pragma once
// The same training under each combination of options: `train_gpt compare --grid placement=post,pre seed=1,2`.

#include "grid.hpp"
#include "options.hpp"

// How a training process says that its numbers stopped being finite.
constexpr int kExitDiverged = 3;

// Runs every cell as a process of this binary, in a directory of its own; writes curves.csv and prints a table.
void run_compare(const Command& command);
