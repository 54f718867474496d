#pragma once
// Processors, memory and SIMD of this machine and this binary.

#include <cstddef>
#include <string>

struct Machine {
  int processors = 1;
  bool openmp = false;           // compiled in
  std::string simd;              // "AVX-512", ...
  size_t memory = 0;             // bytes in all; 0: unknown
  size_t memory_free = 0;        // bytes that could be had now
};
Machine detect_machine();

// Makes threads that wait for one another give up their processor soon. GNU's OpenMP lets them spin for milliseconds,
// which costs nothing on an idle machine and a factor of ten on one where something else runs too; not to spin at all
// costs small models a tenth. So: about 0.1 ms where nothing else runs now, else a few µs. OpenMP reads this once, before
// main(), so the program starts itself again; it does nothing if the user has set how threads wait or where they
// run (OMP_WAIT_POLICY, GOMP_SPINCOUNT, OMP_PROC_BIND, OMP_PLACES, GOMP_CPU_AFFINITY).
void limit_spinning(char** argv);

// Sets the number of threads, 0 for one a processor, and returns it.
int use_threads(int threads);

// Throws std::runtime_error if `bytes` exceed the memory of the machine; prints a warning if they exceed what is free
// of it. `advice` says what to do.
void check_memory(size_t bytes, const char* advice = "lower --batch, --context or the size of the model");
