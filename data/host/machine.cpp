#include "machine.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <unistd.h>

#include "layers/kernels/parallel.hpp"
#include "format.hpp"

#ifndef COMMIT
#define COMMIT "(commit unknown)"  // not built from a clone
#endif

Machine detect_machine() {
  Machine machine;
#ifdef _OPENMP
  machine.openmp = true;
  machine.processors = omp_get_num_procs();
#else
  machine.processors = static_cast<int>(std::thread::hardware_concurrency());
#endif
#if defined(__AVX512F__)
  machine.simd = "AVX-512";
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
  return machine;
}

std::string version_text() {
#ifdef __clang__
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "g++ " __VERSION__;
#endif
  const Machine machine = detect_machine();
  return "train_gpt " COMMIT "\ncompiler  " + compiler + "\nOpenMP    " + (machine.openmp ? "yes" : "no") +
         "\nSIMD      " + machine.simd + "\n";
}

void limit_spinning(char** argv) {
#if defined(_OPENMP) && defined(__linux__)
  // Also for threads bound to processors: in a restarted program all would be bound to the processor of the first.
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})
    if (std::getenv(name)) return;
  int running = 0;
  std::ifstream file("/proc/loadavg");  // "0.20 0.18 0.12 1/80 11206": 1 thread runs now, this one, of 80
  for (std::string word; file >> word;)
    if (word.find('/') != word.npos) running = std::atoi(word.c_str());
  file.close();
  if (setenv("GOMP_SPINCOUNT", running == 1 ? "20000" : "1000", 0) != 0) return;  // else it would restart forever
  execv("/proc/self/exe", argv);  // returns only on failure; then the program runs as it is
#endif
  (void)argv;
}

int use_threads(int threads) {
#ifdef _OPENMP
  omp_set_dynamic(0);
  omp_set_num_threads(threads > 0 ? threads : omp_get_num_procs());
#else
  (void)threads;
#endif
  return max_threads();
}

void check_memory(size_t bytes, const char* advice) {
  const Machine machine = detect_machine();
  if (machine.memory && bytes > machine.memory)
    throw std::runtime_error("this needs " + format_bytes(bytes) + " of memory and the machine has " +
                             format_bytes(machine.memory) + ": " + advice);
  if (machine.memory_free && bytes > machine.memory_free)
    std::fprintf(stderr, "WARNING: this needs %s of memory and only %s are free, so it may swap or be killed: %s\n",
                 format_bytes(bytes).c_str(), format_bytes(machine.memory_free).c_str(), advice);
}
