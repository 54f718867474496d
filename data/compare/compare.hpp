#pragma once
// The same training under each combination of options: `train_gpt compare --grid placement=post,pre seed=1,2`.

#include "data/options/options.hpp"

// Runs every cell of the grid, with every seed, as a process of this binary in a directory of its own. With --tune each
// cell first finds its best value on a seed of its own. Writes the tables of tables.hpp and prints one. What has been
// done is not done again with --resume; a run that fails is a result.
// Throws std::invalid_argument for bad options, before anything is run, and std::runtime_error where files cannot be
// written or the user stopped it.
void run_compare(const Command& command);
