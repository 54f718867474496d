#pragma once
// The measured peak of this machine, the denominator of MFU.

#include "layers/kernels/gemm.hpp"

// Measures floating-point operations per second of all threads together, without memory access. A multiply-add counts
// as two. For bf16 it repeats the instruction that gemm uses: AMX's, else the one for vectors. Without either, it
// measures fp32. The first call with a given number of threads takes 0.1 s, or up to 0.5 s while other programs run.
// Later calls return the same number.
double measure_flops(Matmul matmul);

// Measures again, because a measurement on a machine that others share was half of the peak once. Returns the
// largest number so far, as measure_flops() does from then on.
double measure_flops_again(Matmul matmul);

// Memory bandwidth of all threads together, in bytes per second. `floats` should be far more than the caches hold. A
// copied byte counts twice: read and written.
struct Bandwidth {
  double read, copy;
};
Bandwidth measure_bandwidth(size_t floats = size_t(1) << 27);

// Model FLOPs utilization (MFU): speed divided by measure_flops(). The first call of `of` measures the peak. A higher
// speed becomes the new peak, because something else must have run during the measurement.
class Utilization {
 public:
  Utilization(Matmul matmul, double flops_per_token) : matmul_(matmul), work_(flops_per_token) {}
  double of(double tokens_per_second);

 private:
  Matmul matmul_;
  double work_, most_ = 0;  // operations per token; peak operations per second
};

// Reads x(floats) on all threads; no work on x can be faster. Skips less than 1 kB per thread. Returns the longest
// processor time that a thread used, in seconds.
double read_once(const float* x, size_t floats);
