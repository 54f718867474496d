#pragma once
// Flat buffers of floats.

#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <limits>
#include <memory>
#include <stdexcept>

constexpr size_t kAlignment = 64;  // bytes: one cache line, one AVX-512 register
constexpr size_t kMostFloats = std::numeric_limits<ptrdiff_t>::max() / sizeof(float);

constexpr size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Returns the product of sizes. Throws std::overflow_error if this machine cannot address that many floats.
size_t checked_product(std::initializer_list<size_t> sizes);

struct FreeBuffer {
  void operator()(void* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<float[], FreeBuffer>;

// What a matrix in a buffer consists of. bf16 has float's exponent and 8 bits of precision. Two of its numbers take the
// place of one float.
enum class NumberType { fp32, bf16 };

struct Matrix {
  float* data;
  NumberType numbers;

  Matrix(float* data = nullptr, NumberType numbers = NumberType::fp32) : data(data), numbers(numbers) {}
  explicit operator bool() const { return data; }
  operator float*() const {
    if (numbers != NumberType::fp32) throw std::logic_error("this matrix does not consist of floats");
    return data;
  }
};

// The floats of a buffer that so many numbers take.
constexpr size_t floats_of(NumberType type, size_t numbers) {
  return type == NumberType::bf16 ? (numbers + 1) / 2 : numbers;
}

// Returns the bytes that allocate() takes for this many floats. Throws std::overflow_error.
size_t allocated_bytes(size_t floats);

// Returns aligned zeros. Throws std::bad_alloc or std::overflow_error.
Buffer allocate(size_t floats);

// x[0..n) = 0
void set_zero(float* x, size_t n);

// y[0..n) += x[0..n)
void add(float* y, const float* x, size_t n);
