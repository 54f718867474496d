#include "tensors.hpp"

#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>

namespace {
constexpr size_t kAlign = 64;  // bytes: one cache line, one AVX-512 register
constexpr size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }
}  // namespace

size_t checked_product(std::initializer_list<size_t> sizes) {
  size_t product = 1;
  for (size_t size : sizes) {
    if (size != 0 && product > std::numeric_limits<ptrdiff_t>::max() / sizeof(float) / size)
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

float* Layout::take(const std::string& name, std::vector<int> shape, Start start) {
  TensorSpec spec;
  spec.name = name;
  spec.decay = shape.size() >= 2;
  spec.shape = std::move(shape);
  spec.start = start;
  return take_joined({spec});
}

float* Layout::take_joined(std::vector<TensorSpec> specs) {
  const size_t begin = size_;
  for (TensorSpec& spec : specs) {
    spec.offset = size_;
    size_ += spec.size();
    table_.push_back(std::move(spec));
  }
  size_ = round_up(size_, kAlign / sizeof(float));
  return base_ ? base_ + begin : nullptr;
}

Buffer allocate(size_t floats) {
  const size_t bytes = round_up(checked_product({floats, sizeof(float)}), kAlign);
  void* p = std::aligned_alloc(kAlign, bytes ? bytes : kAlign);
  if (!p) throw std::bad_alloc();
  std::memset(p, 0, bytes ? bytes : kAlign);
  return Buffer(static_cast<float*>(p));
}
