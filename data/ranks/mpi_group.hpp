#pragma once
// Makes the ranks of an MPI job a Group.

#include <memory>
#include <string>

#include "layers/training/group.hpp"

// Where this rank runs.
struct Place {
  int rank_on_node = 0, ranks_on_node = 1, nodes = 1;
  int threads = 0;  // one for each processor of this rank; 0 for all processors
};

// "ranks    4 on 2 nodes, 2 x 8 threads on this one"
std::string describe(const Place& place, int ranks);

// Returns the group of processes that a launcher started together, or a group of one. Throws std::runtime_error if
// there are several processes and the program was built without MPI or with another MPI than the launcher's. Destroying
// the group ends MPI.
std::shared_ptr<Group> join_group(Place& place);

// Prints a line that names this rank and says why, then ends all ranks at once, this one with exit code 1.
[[noreturn]] void end_all_ranks(const Group& group, const std::string& why);

// Returns the line of --version that names this build's MPI library.
std::string mpi_line();
