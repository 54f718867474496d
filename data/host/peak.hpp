#pragma once
// The measured peak of this machine, the denominator of MFU.

#include "layers/kernels/gemm.hpp"

// Floating-point operations a second of all threads together, from registers alone; a multiply-add is two. For bf16: of
// the instruction that multiplies bf16 numbers, or of fp32 where there is none. Takes 0.1 s the first time with so many
// threads; later calls return the same.
double measure_flops(Matmul matmul);

// Bytes a second of all threads together over `floats` floats, far more than the caches hold: read once, and copied
// (each byte counted as read and as written).
struct Bandwidth {
  double read, copy;
};
Bandwidth measure_bandwidth(size_t floats = size_t(1) << 27);

// Speed as a share of measure_flops: the model flops utilization, MFU. The first call of `of` measures the machine, in 0.1 s.
// A speed above what was measured counts as the new maximum: something else ran meanwhile.
class Utilization {
 public:
  Utilization(Matmul matmul, double flops_per_token) : matmul_(matmul), work_(flops_per_token) {}
  double of(double tokens_per_second);

 private:
  Matmul matmul_;
  double work_, most_ = 0;  // operations a token, and a second
};

// All threads read x(floats), each a share of it (but for less than 1 kB each): the least that work on it takes.
void read_once(const float* x, size_t floats);
