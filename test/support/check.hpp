#pragma once
// Helpers for tests of layers: the error of a tensor, random inputs, and runs with several numbers of threads.

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "catch.hpp"

// ‖got − want‖ / max(‖want‖, 1e-3·s), in double. s is the norm of the terms that were summed for `want`, before any
// cancelled. Rounding errors are relative to these terms, so a gradient that nearly cancels is not judged by its own
// size alone. Infinity if a number is not finite, the sizes differ or both are empty.
double relative_error(std::span<const float> got, std::span<const double> want, double s = 0);

// CHECKs that the relative error is at most `tolerance`. The name is "layer/case/tensor"; the worst error of
// each layer is remembered and printed when all tests have run.
void check_close(const std::string& name, std::span<const float> got, std::span<const double> want,
                 double tolerance, double s = 0);

// A factor for s if `want` is a single number, summed over a whole batch. It can cancel further than all numbers of a
// vector together.
inline double sum_factor(size_t size) { return size == 1 ? 100 : 1; }

// Does the same for an error that the caller measured.
void check_error(const std::string& name, double error, double tolerance);

bool same_bits(std::span<const float> a, std::span<const float> b);

std::vector<float> random_floats(size_t n, uint64_t seed, float mean = 0, float deviation = 1);
std::vector<int> random_ints(size_t n, uint64_t seed, int below);  // 0 ... below − 1

// Returns NaNs, for buffers that a function must overwrite or leave alone.
std::vector<float> garbage(size_t n);

std::vector<double> widen(std::span<const float> x);
std::vector<float> joined(std::initializer_list<std::span<const float>> parts);
std::vector<double> times(double factor, std::vector<double> x);
double norm_of(std::span<const double> x);

// Sets the number of threads. Tests start with one because their inputs are small. Does nothing without OpenMP.
void set_threads(int n);

// CHECKs that f() returns the same bits with 1, 2 and 3 threads.
template <class F>
void check_same_for_all_threads(F f) {
  set_threads(1);
  const std::vector<float> one = f();
  for (int threads : {2, 3}) {
    INFO(threads << " threads against one");
    set_threads(threads);
    const std::vector<float> many = f();
    CHECK(same_bits(many, one));
  }
  set_threads(1);
}
