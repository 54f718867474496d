#pragma once
// The processors and memory that this process may use, and what this binary was compiled for.

#include <cstddef>
#include <string>

struct Machine {
  int processors = 1;      // that this process may use, limited by its container's share of time
  bool openmp = false;     // compiled in
  std::string simd;        // "AVX-512", ...
  size_t memory = 0;       // total bytes; 0 if unknown
  size_t memory_free = 0;  // bytes available now, including caches that the system would free; 0 if unknown
  std::string memory_limit = "the machine has";  // what limits `memory`, for messages
};
Machine detect_machine();

// Returns the number of threads without --threads: OMP_NUM_THREADS, else `processors`, else the machine's processors.
int default_threads(int processors = 0);

// Sets the number of threads (0 takes the default) and returns it. Never exceeds OMP_THREAD_LIMIT.
int use_threads(int threads);

// Throws std::runtime_error if `bytes` exceed the memory that this process may use. Prints a warning if they exceed its
// free part. `advice` tells the user what to do.
void check_memory(size_t bytes, const char* advice = "lower --batch, --context or the size of the model");
