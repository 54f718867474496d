#pragma once
// The processors, memory and SIMD of this machine, and what this binary was compiled for.

#include <cstddef>
#include <string>

struct Machine {
  int processors = 1;
  bool openmp = false;     // compiled in
  std::string simd;        // "AVX-512", ...
  size_t memory = 0;       // bytes in all; 0: unknown
  size_t memory_free = 0;  // bytes available now, with caches that the system would give back; 0: unknown
};
Machine detect_machine();

// The text of --version: commit, compiler, OpenMP, SIMD.
std::string version_text();

// Shortens the time that OpenMP's threads spin while they wait, and starts the program again, because OpenMP reads the
// setting once, before main(). GNU's default of several milliseconds costs nothing on an idle machine, but makes the
// program ten times slower when other processes run; no spinning at all costs small models a tenth. The time is about
// 0.1 ms if nothing else runs now, else a few µs. Does nothing if the user has set how threads wait or where they run
// (OMP_WAIT_POLICY, GOMP_SPINCOUNT, OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY).
void limit_spinning(char** argv);

// Sets the number of threads, or one per processor for 0, and returns it.
int use_threads(int threads);

// Throws std::runtime_error if `bytes` exceed the machine's memory; prints a warning if they exceed its free memory.
// `advice` tells the user what to do.
void check_memory(size_t bytes, const char* advice = "lower --batch, --context or the size of the model");
