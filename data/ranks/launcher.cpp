#include "launcher.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "data/host/cgroup.hpp"
#include "data/host/machine.hpp"

namespace {

int number_in(const char* variable) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : 0;
}

}  // namespace

int launched_processes() {
  int processes = 1;
  // In order: Open MPI's mpirun; MPICH's; Intel MPI's and others'; srun.
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_NUM_TASKS"})
    processes = std::max(processes, number_in(variable));
  return processes;
}

void require_one_process() {
  if (const int processes = launched_processes(); processes > 1)
    throw std::invalid_argument(std::to_string(processes) + " processes were started, and this command is the work " +
                                "of one: leave mpirun or srun out");
}

#if defined(__linux__)

namespace {

std::vector<int> processors_in(const cpu_set_t& set) {
  std::vector<int> processors;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &set)) processors.push_back(i);
  return processors;
}

// Open MPI binds each process of a small job to one core unless the user says otherwise.
bool bound_by_default() {
  return std::getenv("OMPI_COMM_WORLD_SIZE") && !std::getenv("OMPI_MCA_hwloc_base_binding_policy") &&
         !std::getenv("OMPI_MCA_rmaps_base_mapping_policy");
}

int bind_to_share(int rank_on_node, int ranks_on_node) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return detect_machine().processors;
  if (bound_by_default()) {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &all);
    if (sched_setaffinity(0, sizeof all, &all) == 0) sched_getaffinity(0, sizeof set, &set);  // drops forbidden ones
  } else if (std::getenv("SLURM_CPU_BIND") || std::getenv("OMPI_COMM_WORLD_SIZE")) {
    return CPU_COUNT(&set);
  }
  const std::vector<int> all = processors_in(set);
  const int n = static_cast<int>(all.size());
  if (ranks_on_node > n) return 1;  // more ranks than processors: the scheduler shares them
  CPU_ZERO(&set);
  const int begin = n * rank_on_node / ranks_on_node, end = n * (rank_on_node + 1) / ranks_on_node;
  for (int i = begin; i < end; ++i) CPU_SET(all[static_cast<size_t>(i)], &set);
  return sched_setaffinity(0, sizeof set, &set) == 0 ? end - begin : n / ranks_on_node;
}

}  // namespace

int share_processors(int rank_on_node, int ranks_on_node) {
  return within_quota(bind_to_share(rank_on_node, ranks_on_node), cgroup_limits().processors / ranks_on_node);
}

#else

int share_processors(int, int ranks_on_node) { return std::max(1, detect_machine().processors / ranks_on_node); }

#endif
