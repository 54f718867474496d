#pragma once
// What a matrix consists of: floats, or numbers of 16 bits, of which two take the place of one float.
//
//   bf16   the upper half of a float: its exponent, 8 bits of precision
//   fp16   IEEE 754 binary16: 5 bits of exponent, 11 of precision; at most 65504
//
// Both widen to floats exactly. Floats are rounded to the nearest number, in a tie to the even one; NaN stays NaN.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

enum class NumberType { fp32, bf16, fp16 };

// The floats of a buffer that so many numbers take.
constexpr size_t floats_of(NumberType type, size_t numbers) {
  return type == NumberType::fp32 ? numbers : (numbers + 1) / 2;
}

struct Bfloat16 {
  uint16_t bits;
  static constexpr uint16_t kExponent = 0x7f80;  // all ones in infinities and NaN
};
struct Float16 {
  uint16_t bits;
  static constexpr uint16_t kExponent = 0x7c00;
};

inline float widened(float x) { return x; }

inline float widened(Bfloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

inline float widened(Float16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16, exponent = x.bits >> 10 & 31;
  const uint32_t fraction = x.bits & 1023;
  if (exponent == 0) {  // zero or subnormal: fraction · 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const uint32_t rebiased = exponent == 31 ? 255 : exponent + 127 - 15;
  return std::bit_cast<float>(sign | rebiased << 23 | fraction << 13);
}

template <class Number>
Number rounded(float x);

template <>
inline float rounded(float x) { return x; }

template <>
inline Bfloat16 rounded(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const bool nan = (bits & 0x7fffffff) > 0x7f800000;
  return {static_cast<uint16_t>((nan ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

template <>
inline Float16 rounded(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x), magnitude = bits & 0x7fffffff;
  const auto with_sign = [&](uint32_t half) {
    return Float16{static_cast<uint16_t>((bits >> 16 & 0x8000) | half)};
  };
  if (magnitude > 0x7f800000) return with_sign(0x7e00);    // not a number
  if (magnitude >= 0x477ff000) return with_sign(0x7c00);  // 65520 and more become infinite
  if (magnitude < 0x38800000)                             // subnormal: a multiple of 2^-24, like floats from 0.5 to 1
    return with_sign(std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + .5f) - std::bit_cast<uint32_t>(.5f));
  const uint32_t rebiased = magnitude - ((127 - 15) << 23);
  return with_sign((rebiased + 0xfff + (rebiased >> 13 & 1)) >> 13);
}

// Calls f with the address of a matrix as a pointer to numbers of its type. `Float` is float or const float.
template <class Float, class F>
auto as_numbers(Float* data, NumberType type, F f) {
  const auto as = [&]<class Number>(Number) {
    return f(reinterpret_cast<std::conditional_t<std::is_const_v<Float>, const Number, Number>*>(data));
  };
  if (type == NumberType::bf16) return as(Bfloat16());
  if (type == NumberType::fp16) return as(Float16());
  return f(data);
}

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
