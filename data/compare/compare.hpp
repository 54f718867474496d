#pragma once
// The sub-command compare: `train_gpt compare --grid placement=post,pre seed=1,2`.

#include "data/options/options.hpp"

// Trains every cell of the grid with every seed. Each run is a process of this binary in its own directory. With
// --tune, each cell first finds its best values on a separate seed. Writes the tables of tables.hpp and prints one.
// With --resume, does not repeat finished runs. A failed run counts as a result. Throws std::invalid_argument for bad
// options, before the first run, and std::runtime_error if files cannot be written or the user stops it.
void run_compare(const Command& command);
