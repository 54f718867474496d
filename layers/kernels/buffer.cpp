#include "buffer.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

#include "parallel.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

size_t checked_product(std::initializer_list<size_t> sizes) {
  size_t product = 1;
  for (size_t size : sizes) {
    if (size != 0 && product > kMostFloats / size)
      throw std::overflow_error("a tensor would have more elements than this machine can address");
    product *= size;
  }
  return product;
}

namespace {

// Large buffers ask for large pages. A page of 4 KB holds at most one row of a large matrix, and the processor caches
// the addresses of only a few hundred pages.
constexpr size_t kLargePage = 2 << 20;

size_t alignment_of(size_t floats) { return floats * sizeof(float) >= 4 * kLargePage ? kLargePage : kAlignment; }

}  // namespace

size_t allocated_bytes(size_t floats) {
  return round_up(std::max(checked_product({floats, sizeof(float)}), kAlignment), alignment_of(floats));
}

Buffer reserve(size_t floats) {
  const size_t bytes = allocated_bytes(floats), align = alignment_of(floats);
  void* p = std::aligned_alloc(align, bytes);
  if (!p) throw std::bad_alloc();
#if defined(__linux__)
  if (align == kLargePage) madvise(p, bytes, MADV_HUGEPAGE);
#endif
  return Buffer(static_cast<float*>(p));
}

Buffer allocate(size_t floats) {
  Buffer buffer = reserve(floats);
  set_zero(buffer.get(), allocated_bytes(floats) / sizeof(float));  // by all threads: a page is near its first user
  return buffer;
}

void set_zero(float* x, size_t n) {
  parallel_floats(n, [=](size_t begin, size_t end) { std::fill(x + begin, x + end, 0.f); });
}

void add(float* y, const float* x, size_t n) {
  parallel_floats(n, [=](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) y[i] += x[i];
  });
}
