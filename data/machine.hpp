#pragma once
// What this machine and this binary offer.

#include <cstddef>
#include <string>

struct Machine {
  int processors = 1;
  bool openmp = false;           // compiled in
  std::string simd;              // "AVX-512", ...
  size_t memory = 0;             // bytes in all; 0: unknown
  size_t memory_free = 0;        // bytes that could be had now
};
Machine look_at_machine();

// Sets the number of threads, 0 for one a processor, and returns it.
int use_threads(int threads);

// Throws std::runtime_error if `bytes` exceed the memory of the machine; returns a warning, or "", if they exceed
// what is free of it.
std::string check_memory(size_t bytes);
