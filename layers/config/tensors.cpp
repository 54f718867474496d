#include "tensors.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <stdexcept>

#include "layers/kernels/elementwise.hpp"
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

NumberType Layout::numbers_of(const std::vector<TensorSpec>& specs) const {
  const bool even = std::ranges::all_of(specs, [](const TensorSpec& spec) { return spec.size() % 2 == 0; });
  return even && !drops_frozen_ && all_frozen(specs) ? frozen_ : NumberType::fp32;
}

Matrix Layout::take_matrix(std::vector<TensorSpec> specs) {
  const NumberType numbers = numbers_of(specs);
  for (TensorSpec& spec : specs) spec.numbers = numbers;
  return {take_joined(std::move(specs)), numbers};
}

float* Layout::take_joined(std::vector<TensorSpec> specs) {
  if (share_)
    if (const TensorSpec* first = first_of(stack_ + specs[0].name)) return base_ ? base_ + first->offset : nullptr;
  const size_t begin = size_;
  const bool frozen = drops_frozen_ && all_frozen(specs);
  for (TensorSpec& spec : specs) {
    spec.layer = layer_ == kOutside ? kOutside : first_layer_ + layer_;
    spec.part = stack_ + spec.name;
    spec.name = stack_ + (layer_ == kOutside ? "" : "block." + std::to_string(layer_) + ".") + spec.name;
    spec.offset = spec.gradient = frozen ? kNoGradient : size_;
    spec.decay = spec.trained && spec.shape.size() >= 2;
    if (!frozen) size_ += floats_of(spec.numbers, spec.size());
    if (size_ > kMostFloats) throw std::overflow_error("the tensors have more elements than this machine can address");
    table_.push_back(std::move(spec));
  }
  size_ = round_up(size_, kAlignment / sizeof(float));
  return base_ && !frozen ? base_ + begin : nullptr;
}

bool is_norm(const TensorSpec& spec) {
  return spec.role == Role::norm || spec.role == Role::norm_gain || spec.role == Role::norm_scalar ||
         spec.role == Role::norm_gate;
}

bool is_vector(const TensorSpec& spec) { return spec.shape.size() < 2; }
bool is_embedding(const TensorSpec& spec) { return spec.role == Role::embedding && !is_vector(spec); }
bool is_head(const TensorSpec& spec) { return spec.role == Role::classifier && !is_vector(spec); }

size_t buffer_floats(const std::vector<TensorSpec>& table) {
  if (table.empty()) return 0;
  const TensorSpec& last = table.back();
  return round_up(last.offset + floats_of(last.numbers, last.size()), kAlignment / sizeof(float));
}

std::vector<TensorSpec> gradients_of(std::vector<TensorSpec> table) {
  std::erase_if(table, [](const TensorSpec& spec) { return spec.gradient == kNoGradient; });
  for (TensorSpec& spec : table) spec.offset = spec.gradient;
  return table;
}

namespace {

bool is_finite(float x) {
  constexpr uint32_t kExponent = 0x7f800000;  // all ones in infinities and NaN
  return (std::bit_cast<uint32_t>(x) & kExponent) != kExponent;
}
template <class Number>
bool is_finite(Number x) { return (x.bits & Number::kExponent) != Number::kExponent; }

template <class Number>
bool all_finite(const Number* x, size_t n) {
  std::atomic<bool> finite = true;
  parallel_floats(n, [&](size_t begin, size_t end) {
    uint32_t bad = 0;
    for (size_t i = begin; i < end; ++i) bad |= !is_finite(x[i]);
    if (bad) finite = false;
  });
  return finite;
}

}  // namespace

const TensorSpec* first_non_finite(const std::vector<TensorSpec>& table, const float* buffer) {
  for (const TensorSpec& spec : table) {
    const float* at = buffer + spec.offset;
    if (!as_numbers(at, spec.numbers, [&](const auto* numbers) { return all_finite(numbers, spec.size()); }))
      return &spec;
  }
  return nullptr;
}

std::vector<float> read_floats(const TensorSpec& spec, const float* buffer) {
  std::vector<float> floats(spec.size());
  if (spec.numbers == NumberType::fp32) {
    std::copy_n(buffer + spec.offset, floats.size(), floats.begin());
  } else {
    const size_t halves = floats.size() / 2;
    std::copy_n(buffer + spec.offset, halves, floats.end() - halves);
    widen(spec.numbers, floats.data(), floats.size());
  }
  return floats;
}

FloatsToWrite::FloatsToWrite(float* buffer, const TensorSpec& spec)
    : at_(buffer + spec.offset), size_(spec.size()), numbers_(spec.numbers) {
  if (spec.numbers != NumberType::fp32) elsewhere_ = allocate(size_);
}

FloatsToWrite::~FloatsToWrite() {
  if (elsewhere_) round_to(numbers_, at_, 0, elsewhere_.get(), size_);
}
