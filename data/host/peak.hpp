#pragma once
// What this machine can do at most, measured: against these numbers speed is a share.

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

// All threads read x(floats), each a share of it (but for less than 1 kB each): the least that work on it takes.
void read_once(const float* x, size_t floats);
