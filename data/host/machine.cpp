#include "machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

#include "cgroup.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/kernels/parallel.hpp"
#include "data/strings/format.hpp"

namespace {

// OpenMP's number of threads (OMP_NUM_THREADS), read before use_threads() changes it.
int threads_at_start() {
  static const int threads = max_threads();
  return threads;
}

// Throws std::runtime_error if that many threads cannot run at once; OpenMP would end the program instead.
void require_threads(int threads) {
  std::vector<std::thread> started;
  std::mutex until_all;
  std::string why;
  {
    const std::lock_guard wait(until_all);
    try {
      while (static_cast<int>(started.size()) + 1 < threads)
        started.emplace_back([&] { const std::lock_guard all(until_all); });
    } catch (const std::system_error& error) {
      why = error.code().message();
    }
  }
  for (std::thread& thread : started) thread.join();
  if (!why.empty())
    throw std::runtime_error("cannot start " + std::to_string(threads) + " threads: " + why + "; try --threads " +
                             std::to_string(started.size() + 1));
}

// Applies a memory limit `most`, of which `free` bytes are unused.
void limit_memory(Machine& machine, uint64_t most, uint64_t free, const char* who) {
  if (machine.memory == 0 || most < machine.memory) {
    machine.memory = most;
    machine.memory_limit = who;
  }
  if (machine.memory_free == 0 || free < machine.memory_free) machine.memory_free = std::max<uint64_t>(free, 1);
}

// `ulimit -v` and `ulimit -d` count address space.
void limit_address_space(Machine& machine) {
  size_t pages[6] = {};  // in all, resident, shared, code, 0, data
  std::ifstream file("/proc/self/statm");  // Linux only
  for (size_t& n : pages) file >> n;
  const struct {
    int resource;
    size_t pages;
    const char* who;
  } limits[] = {{RLIMIT_AS, pages[0], "`ulimit -v` allows"}, {RLIMIT_DATA, pages[5], "`ulimit -d` allows"}};
  for (const auto& l : limits) {
    rlimit limit{};
    if (getrlimit(l.resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) continue;
    const uint64_t used = uint64_t{l.pages} * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)), most = limit.rlim_cur;
    limit_memory(machine, most, most - std::min(most, used), l.who);
  }
}

}  // namespace

Machine detect_machine() {
  Machine machine;
  const CgroupLimits group = cgroup_limits();
#ifdef _OPENMP
  machine.openmp = true;
  machine.processors = omp_get_num_procs();
#else
  machine.processors = static_cast<int>(std::thread::hardware_concurrency());
#endif
  machine.processors = within_quota(machine.processors, group.processors);
#if defined(__AVX512F__)
  machine.simd = gemm_has_amx() ? "AVX-512 + AMX" : "AVX-512";
#elif defined(__AVX2__)
  machine.simd = "AVX2";
#elif defined(__ARM_NEON)
  machine.simd = "NEON";
#elif defined(__SSE2__)
  machine.simd = "SSE2";
#else
  machine.simd = "vectors of 4";
#endif
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) machine.memory = static_cast<size_t>(pages) * static_cast<size_t>(page);
  std::ifstream file("/proc/meminfo");  // Linux only
  std::string name, unit;
  for (size_t kilobytes; file >> name >> kilobytes; std::getline(file, unit))
    if (name == "MemAvailable:") machine.memory_free = kilobytes * 1024;
  if (group.memory < SIZE_MAX) limit_memory(machine, group.memory, group.memory_free, "this container (cgroup) has");
  limit_address_space(machine);
  return machine;
}

int default_threads(int processors) {
  if (std::getenv("OMP_NUM_THREADS")) return threads_at_start();
  return processors > 0 ? processors : detect_machine().processors;
}

int use_threads(int threads) {
#ifdef _OPENMP
  threads_at_start();
  omp_set_dynamic(0);
  omp_set_num_threads(std::min(threads > 0 ? threads : default_threads(), omp_get_thread_limit()));
  require_threads(max_threads());
#else
  (void)threads;
#endif
  return max_threads();
}

void check_memory(size_t bytes, const char* advice) {
  const Machine machine = detect_machine();
  const std::string needs = "this needs " + format_bytes(bytes) + " of memory and ";
  if (machine.memory && bytes > machine.memory)
    throw std::runtime_error(needs + machine.memory_limit + " " + format_bytes(machine.memory) + ": " + advice);
  if (machine.memory_free && bytes > machine.memory_free)
    std::fprintf(stderr, "WARNING: %sonly %s are free, so it may swap or be killed: %s\n", needs.c_str(),
                 format_bytes(machine.memory_free).c_str(), advice);
}
