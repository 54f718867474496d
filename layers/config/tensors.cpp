#include "tensors.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <stdexcept>

#include "layers/kernels/buffer.hpp"
#include "layers/kernels/parallel.hpp"

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

bool Layout::all_frozen(const std::vector<TensorSpec>& specs) const {
  if (!weights_) return false;
  const auto* next = weights_->data() + table_.size();
  return std::none_of(next, next + specs.size(),
                      [](const TensorSpec& spec) { return spec.trained || spec.shape.size() < 2; });
}

const TensorSpec* Layout::first_of(const std::string& part) const {
  const auto found = std::find_if(table_.begin(), table_.end(), [&](const TensorSpec& spec) {
    return spec.layer != kOutside && spec.part == part;
  });
  return found == table_.end() ? nullptr : &*found;
}

float* Layout::take_joined(std::vector<TensorSpec> specs) {
  if (share_)
    if (const TensorSpec* first = first_of(specs[0].name)) return base_ ? base_ + first->offset : nullptr;
  const size_t begin = size_;
  const bool frozen = all_frozen(specs);
  for (TensorSpec& spec : specs) {
    spec.layer = layer_;
    spec.part = spec.name;
    if (layer_ != kOutside) spec.name = "block." + std::to_string(layer_) + "." + spec.part;
    spec.offset = spec.gradient = frozen ? kNoGradient : size_;
    spec.decay = spec.trained && spec.shape.size() >= 2;
    if (!frozen) size_ += spec.size();
    if (size_ > kMostFloats) throw std::overflow_error("the tensors have more elements than this machine can address");
    table_.push_back(std::move(spec));
  }
  size_ = round_up(size_, kAlignment / sizeof(float));
  return base_ && !frozen ? base_ + begin : nullptr;
}

bool is_norm(const TensorSpec& spec) {
  return spec.role == Role::norm || spec.role == Role::norm_gain || spec.role == Role::norm_scalar;
}

bool is_vector(const TensorSpec& spec) { return spec.shape.size() < 2; }
bool is_embedding(const TensorSpec& spec) { return spec.role == Role::embedding && !is_vector(spec); }
bool is_head(const TensorSpec& spec) { return spec.role == Role::classifier && !is_vector(spec); }

std::vector<TensorSpec> gradients_of(std::vector<TensorSpec> table) {
  std::erase_if(table, [](const TensorSpec& spec) { return spec.gradient == kNoGradient; });
  for (TensorSpec& spec : table) spec.offset = spec.gradient;
  return table;
}

namespace {

bool all_finite(const float* x, size_t n) {
  constexpr uint32_t kExponent = 0x7f800000;  // all ones in infinities and NaN
  std::atomic<bool> finite = true;
  parallel_floats(n, [&](size_t begin, size_t end) {
    uint32_t bad = 0;
    for (size_t i = begin; i < end; ++i) bad |= (std::bit_cast<uint32_t>(x[i]) & kExponent) == kExponent;
    if (bad) finite = false;
  });
  return finite;
}

}  // namespace

const TensorSpec* first_non_finite(const std::vector<TensorSpec>& table, const float* buffer) {
  for (const TensorSpec& spec : table)
    if (!all_finite(buffer + spec.offset, spec.size())) return &spec;
  return nullptr;
}
