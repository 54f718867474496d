#pragma once
// The ranks of an MPI job as a Group.

#include <memory>
#include <string>

#include "layers/training/group.hpp"

// Where this rank runs.
struct Place {
  int rank_on_node = 0, ranks_on_node = 1, nodes = 1;
  int threads = 0;  // as many as this rank has processors; 0: all processors
};

// "ranks    4 on 2 nodes, 2 x 8 threads on this one"
std::string describe(const Place& place, int ranks);

// The group of the processes that a launcher started together, or of this one alone. Throws std::runtime_error if there
// are several, and the program was built without MPI or with another MPI than the launcher's. MPI ends when the group
// does.
std::shared_ptr<Group> join_group(Place& place);

// Ends all ranks at once, this one with exit code 1, after a line that names this rank and says why.
[[noreturn]] void end_all_ranks(const Group& group, const std::string& why);

// The MPI library of this build, as a line of --version.
std::string mpi_line();
