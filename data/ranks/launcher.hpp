#pragma once
// Launchers such as mpirun and srun, which start several processes together.

// Returns the number of processes that were started together, from variables that launchers set; 1 without a launcher.
int launched_processes();

// Throws std::invalid_argument if several processes were started to do the work of one.
void require_one_process();

// Binds this process to its share of the node's processors and returns their number, or fewer if a container allows
// less processor time. Leaves processors alone that the user has assigned (mpirun --bind-to, srun --cpus-per-task).
int share_processors(int rank_on_node, int ranks_on_node);
