#pragma once
// The measured peak of this machine, the denominator of MFU.

#include "layers/kernels/gemm.hpp"

// Floating-point operations per second of all threads together, on registers alone. A multiply-add is two operations.
// bf16 measures the instruction that multiplies bf16 numbers, or fp32 if the processor has none. The first call with a
// given number of threads takes 0.1 s. Later calls return the same number.
double measure_flops(Matmul matmul);

// Bytes per second of all threads together, from memory: `floats` should be far more than the caches hold. A copied
// byte counts twice, as read and as written.
struct Bandwidth {
  double read, copy;
};
Bandwidth measure_bandwidth(size_t floats = size_t(1) << 27);

// Model FLOPs utilization (MFU): speed as a share of measure_flops(), which the first call of `of` measures. A speed
// above the measured peak becomes the new peak, because something else must have run during the measurement.
class Utilization {
 public:
  Utilization(Matmul matmul, double flops_per_token) : matmul_(matmul), work_(flops_per_token) {}
  double of(double tokens_per_second);

 private:
  Matmul matmul_;
  double work_, most_ = 0;  // operations per token, and per second
};

// Reads x(floats), on all threads: the least time that any work on it takes. Skips less than 1 kB per thread.
void read_once(const float* x, size_t floats);
