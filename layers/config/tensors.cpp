#include "tensors.hpp"

#include <cmath>
#include <stdexcept>

#include "layers/kernels/buffer.hpp"

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
  size_ = round_up(size_, kAlignment / sizeof(float));
  return base_ ? base_ + begin : nullptr;
}

const TensorSpec* first_non_finite(const std::vector<TensorSpec>& table, const float* buffer) {
  for (const TensorSpec& spec : table)
    for (size_t i = 0; i < spec.size(); ++i)
      if (!std::isfinite(buffer[spec.offset + i])) return &spec;
  return nullptr;
}
