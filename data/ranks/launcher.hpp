#pragma once
// The launcher that started this process as one of several ranks: mpirun, or srun.

// How many processes were started together, by the variables that launchers set; 1 without a launcher.
int launched_processes();

// Throws std::invalid_argument if several processes were started to do the work of one.
void require_one_process();

// Runs the threads of this process on a share of the processors of its node, one for each rank there, and returns how
// many these are. Processors that the user has assigned (mpirun --bind-to, srun --cpus-per-task) stay.
int share_processors(int rank_on_node, int ranks_on_node);
