#include "tensors.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

#include "layers/kernels/parallel.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace {
constexpr size_t kAlign = 64;  // bytes: one cache line, one AVX-512 register
constexpr size_t kMostFloats = std::numeric_limits<ptrdiff_t>::max() / sizeof(float);
constexpr size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }
}  // namespace

size_t checked_product(std::initializer_list<size_t> sizes) {
  size_t product = 1;
  for (size_t size : sizes) {
    if (size != 0 && product > kMostFloats / size)
      throw std::overflow_error("a tensor would have more elements than this machine can address");
    product *= size;
  }
  return product;
}

size_t TensorSpec::size() const {
  size_t n = 1;
  for (int d : shape) n = checked_product({n, static_cast<size_t>(d)});
  return n;
}

float* Layout::take(const std::string& name, Role role, std::vector<int> shape, Start start) {
  return take_joined({{name, role, std::move(shape), start}});
}

float* Layout::take_untrained(const std::string& name, Role role, std::vector<int> shape, float value) {
  return take_joined({{.name = name, .role = role, .shape = std::move(shape), .start = {value, 0}, .trained = false}});
}

float* Layout::take_joined(std::vector<TensorSpec> specs) {
  const size_t begin = size_;
  for (TensorSpec& spec : specs) {
    spec.layer = layer_;
    spec.part = spec.name;
    if (layer_ != kOutside) spec.name = "block." + std::to_string(layer_) + "." + spec.part;
    spec.offset = size_;
    spec.decay = spec.trained && spec.shape.size() >= 2;
    size_ += spec.size();
    if (size_ > kMostFloats) throw std::overflow_error("the tensors have more elements than this machine can address");
    table_.push_back(std::move(spec));
  }
  size_ = round_up(size_, kAlign / sizeof(float));
  return base_ ? base_ + begin : nullptr;
}

// Large buffers ask for large pages, where the system has them: a page of 4 KB holds one row of a matrix or less, and
// the processor remembers where only some hundreds of pages are.
Buffer allocate(size_t floats) {
  constexpr size_t kLargePage = 2 << 20;
  const size_t needed = std::max(checked_product({floats, sizeof(float)}), kAlign);
  const size_t align = needed >= 4 * kLargePage ? kLargePage : kAlign, bytes = round_up(needed, align);
  void* p = std::aligned_alloc(align, bytes);
  if (!p) throw std::bad_alloc();
#if defined(__linux__)
  if (align == kLargePage) madvise(p, bytes, MADV_HUGEPAGE);
#endif
  std::memset(p, 0, bytes);
  return Buffer(static_cast<float*>(p));
}

void set_zero(float* x, size_t n) {
  constexpr size_t kPiece = 1 << 16;
  parallel_for(static_cast<int>((n + kPiece - 1) / kPiece), 1, kPiece, [&](int begin, int end) {
    std::fill(x + begin * kPiece, x + std::min(n, end * kPiece), 0.f);
  });
}

const TensorSpec* first_non_finite(const std::vector<TensorSpec>& table, const float* buffer) {
  for (const TensorSpec& spec : table)
    for (size_t i = 0; i < spec.size(); ++i)
      if (!std::isfinite(buffer[spec.offset + i])) return &spec;
  return nullptr;
}
