#pragma once
// The processors and memory that this process may use, and what this binary was compiled for.

#include <cstddef>
#include <string>

struct Machine {
  int processors = 1;      // of those that this process may run on, and no more than its container's share of time
  bool openmp = false;     // compiled in
  std::string simd;        // "AVX-512", ...
  size_t memory = 0;       // bytes in all; 0: unknown
  size_t memory_free = 0;  // bytes available now, with caches that the system would give back; 0: unknown
  std::string memory_limit = "the machine has";  // who sets `memory`, for messages
};
Machine detect_machine();

// The number of threads if --threads does not say: OMP_NUM_THREADS, or `processors` of them, and one for each of this
// machine's if it is 0.
int default_threads(int processors = 0);

// Sets the number of threads, or the default for 0, and returns it. OMP_THREAD_LIMIT is never exceeded.
int use_threads(int threads);

// Throws std::runtime_error if `bytes` exceed the memory that this process may use; prints a warning if they exceed
// what is free of it.
// `advice` tells the user what to do.
void check_memory(size_t bytes, const char* advice = "lower --batch, --context or the size of the model");
