#pragma once
// Flat buffers of floats.

#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <memory>

constexpr size_t kAlignment = 64;  // bytes: one cache line, one AVX-512 register
constexpr size_t kMostFloats = std::numeric_limits<ptrdiff_t>::max() / sizeof(float);

constexpr size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Returns the product of sizes. Throws std::overflow_error if this machine cannot address that many floats.
size_t checked_product(std::initializer_list<size_t> sizes);

struct FreeBuffer {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<float[], FreeBuffer>;
// Returns the bytes that allocate() takes for this many floats. Throws std::overflow_error.
size_t allocated_bytes(size_t floats);

// Returns aligned zeros. Throws std::bad_alloc or std::overflow_error.
Buffer allocate(size_t floats);

// Returns aligned room, which has no values yet and takes no memory before it is written.
Buffer reserve(size_t floats);

// x[0..n) = 0
void set_zero(float* x, size_t n);

// y[0..n) += x[0..n)
void add(float* y, const float* x, size_t n);
