#include "float_types.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "data/strings/format.hpp"
#include "layers/kernels/simd.hpp"

float float_of_bfloat16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

float float_of_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
  if (exponent == 0) {  // zero or subnormal: fraction · 2^-24
    const float x = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -x : x;
  }
  const uint32_t rebiased = exponent == 31 ? 255 : exponent + 127 - 15;
  return std::bit_cast<float>(sign | rebiased << 23 | fraction << 13);
}

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

uint16_t bfloat16_of_float(float x) { return simd::round_to_bf16(x).bits; }

namespace {

void encode_f32(std::string& to, const float* from, size_t n) {
  to.append(reinterpret_cast<const char*>(from), n * sizeof(float));
}

template <uint16_t (*convert)(float)>
void encode_16(std::string& to, const float* from, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = convert(from[i]);
    to.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  }
}

}  // namespace

const FloatType kFloat32 = {"f32", "F32", "float32", 4, std::numeric_limits<float>::max(), encode_f32};
const FloatType kFloat16 = {"f16", "F16", "float16", 2, 65504, encode_16<half_of_float>};
const FloatType kBfloat16 = {"bf16", "BF16", "bfloat16", 2, 0x1.fep127f, encode_16<bfloat16_of_float>};

std::string dtype_of_stored(const std::string& stored) {
  for (const FloatType* type : {&kFloat32, &kFloat16, &kBfloat16})
    if (stored == type->stored) return type->name;
  return "";
}

const FloatType& find_float_type(const std::string& name) {
  for (const FloatType* type : {&kFloat32, &kFloat16, &kBfloat16})
    if (name == type->name) return *type;
  throw std::invalid_argument("--dtype " + name + " is not one of f32, f16 and bf16");
}

void check_limit(float x, float limit, const std::string& type, const std::string& tensor) {
  if (std::abs(x) <= limit) return;
  if (!std::isfinite(x)) throw std::runtime_error("the model cannot be exported: " + tensor + " is not finite");
  throw std::invalid_argument("--dtype " + type + " cannot hold " + format("%g", x) + ", which is in " + tensor +
                              ": use --dtype f32");
}
