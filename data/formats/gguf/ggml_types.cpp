#include "ggml_types.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace {

void append(std::string& to, const void* from, size_t bytes) { to.append(static_cast<const char*>(from), bytes); }

void encode_f32(std::string& to, const float* from, size_t n) { append(to, from, n * sizeof(float)); }

template <uint16_t (*convert)(float)>
void encode_16(std::string& to, const float* from, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = convert(from[i]);
    append(to, &bits, sizeof bits);
  }
}

constexpr size_t kQ8Block = 32;

// A block holds a half-precision d and 32 signed bytes q; it stands for d·q. Rounding to q uses d before it is rounded
// to half precision.
void encode_q8(std::string& to, const float* from, size_t n) {
  for (const float* x = from; x < from + n; x += kQ8Block) {
    float largest = 0;
    for (size_t i = 0; i < kQ8Block; ++i) largest = std::max(largest, std::abs(x[i]));
    const float d = largest / 127, inverse = 1 / d;
    const uint16_t half = half_of_float(d);
    append(to, &half, sizeof half);
    for (size_t i = 0; i < kQ8Block; ++i)
      to += std::isfinite(inverse) ? static_cast<char>(static_cast<int>(std::round(x[i] * inverse))) : '\0';
  }
}

}  // namespace

uint16_t half_of_float(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffff;
  const auto with_sign = [&](uint32_t half) { return static_cast<uint16_t>((bits >> 16 & 0x8000) | half); };
  if (magnitude > 0x7f800000) return with_sign(0x7e00);    // not a number
  if (magnitude >= 0x477ff000) return with_sign(0x7c00);  // 65520 and more become infinite
  if (magnitude < 0x38800000)                             // subnormal: a multiple of 2^-24, like floats from 0.5 to 1
    return with_sign(std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + .5f) - std::bit_cast<uint32_t>(.5f));
  const uint32_t rebiased = magnitude - ((127 - 15) << 23);
  return with_sign((rebiased + 0xfff + (rebiased >> 13 & 1)) >> 13);
}

uint16_t bfloat16_of_float(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (std::isnan(x)) return static_cast<uint16_t>(bits >> 16 | 64);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

const GgmlType kF32 = {"f32", 0, 0, 1, 4, std::numeric_limits<float>::max(), encode_f32};
const GgmlType kF16 = {"f16", 1, 1, 1, 2, 65504, encode_16<half_of_float>};
const GgmlType kBf16 = {"bf16", 30, 32, 1, 2, 0x1.fep127f, encode_16<bfloat16_of_float>};
const GgmlType kQ8 = {"q8_0", 8, 7, kQ8Block, 2 + kQ8Block, 65504 * 127.f, encode_q8};

const GgmlType& find_ggml_type(std::string_view name) {
  for (const GgmlType* type : {&kF32, &kF16, &kBf16, &kQ8})
    if (name == type->name) return *type;
  throw std::invalid_argument("--dtype " + std::string(name) + " is not one of f32, f16, bf16 and q8_0");
}
