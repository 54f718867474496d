#include "ggml_blocks.hpp"

#include <cstdint>
#include <cstring>

#include "data/formats/float_types.hpp"

namespace {

using Bytes = const unsigned char*;

float half_at(Bytes from) {
  uint16_t bits;
  std::memcpy(&bits, from, sizeof bits);
  return float_of_half(bits);
}

// ---- blocks of 32 ----------------------------------------------------------------------------------------

// Bytes i hold the numbers i and 16 + i, in their lower and upper halves.
template <int bits, bool has_minimum>
void decode_32(float* to, Bytes block) {
  const float d = half_at(block), m = has_minimum ? half_at(block + 2) : 0;
  const Bytes high = block + (has_minimum ? 4 : 2), q = high + (bits == 5 ? 4 : 0);
  for (int i = 0; i < 32; ++i) {
    int x = i < 16 ? q[i] & 15 : q[i - 16] >> 4;
    if (bits == 5) x |= (high[i / 8] >> i % 8 & 1) << 4;
    to[i] = has_minimum ? d * static_cast<float>(x) + m : d * static_cast<float>(x - (1 << (bits - 1)));
  }
}

// ---- blocks of 256 ---------------------------------------------------------------------------------------

constexpr int kBlock = 256;

// Number i of a field with so many bits. A stretch of `bytes` bytes holds its first numbers in the lowest bits, and so
// on up.
template <int bits, int bytes>
int packed(Bytes field, int i) {
  constexpr int kStretch = bytes * 8 / bits;
  return field[i / kStretch * bytes + i % bytes] >> i % kStretch / bytes * bits & ((1 << bits) - 1);
}

// The scale s and the scale t of the minimum, of group g of 8: 6 bits each in 12 bytes. The upper two bits of the last
// four are in the bytes of the first four.
struct Scales {
  int s, t;
};
Scales scales_of(Bytes field, int g) {
  if (g < 4) return {field[g] & 63, field[g + 4] & 63};
  return {(field[g + 4] & 15) | field[g - 4] >> 6 << 4, field[g + 4] >> 4 | field[g] >> 6 << 4};
}

// The scale of group g of 16 in q3_k: 4 bits in the first 8 bytes, the upper two in the last 4.
int scale_of(Bytes field, int g) { return (packed<4, 8>(field, g) | packed<2, 4>(field + 8, g) << 4) - 32; }

template <int bits>
void decode_with_minimum(float* to, Bytes block) {
  const float d = half_at(block), m = half_at(block + 2);
  const Bytes scales = block + 4, high = scales + 12, q = high + (bits == 5 ? 32 : 0);
  for (int i = 0; i < kBlock; ++i) {
    const auto [s, t] = scales_of(scales, i / 32);
    const int x = packed<4, 32>(q, i) | (bits == 5 ? packed<1, 32>(high, i) << 4 : 0);
    to[i] = d * static_cast<float>(s) * static_cast<float>(x) - m * static_cast<float>(t);
  }
}

}  // namespace

void decode_f32(float* to, Bytes block) { std::memcpy(to, block, sizeof *to); }
void decode_f16(float* to, Bytes block) { *to = half_at(block); }
void decode_bf16(float* to, Bytes block) {
  uint16_t bits;
  std::memcpy(&bits, block, sizeof bits);
  *to = float_of_bfloat16(bits);
}

void decode_q4_0(float* to, Bytes block) { decode_32<4, false>(to, block); }
void decode_q4_1(float* to, Bytes block) { decode_32<4, true>(to, block); }
void decode_q5_0(float* to, Bytes block) { decode_32<5, false>(to, block); }
void decode_q5_1(float* to, Bytes block) { decode_32<5, true>(to, block); }

void decode_q8_0(float* to, Bytes block) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) to[i] = d * static_cast<float>(static_cast<signed char>(block[2 + i]));
}

void decode_q2_k(float* to, Bytes block) {
  const Bytes scales = block, q = scales + 16;
  const float d = half_at(q + 64), m = half_at(q + 66);
  for (int i = 0; i < kBlock; ++i) {
    const int s = scales[i / 16] & 15, t = scales[i / 16] >> 4;
    to[i] = d * static_cast<float>(s) * static_cast<float>(packed<2, 32>(q, i)) - m * static_cast<float>(t);
  }
}

void decode_q3_k(float* to, Bytes block) {
  const Bytes high = block, q = high + 32, scales = q + 64;
  const float d = half_at(scales + 12);
  for (int i = 0; i < kBlock; ++i) {
    const int x = packed<2, 32>(q, i) + 4 * packed<1, 32>(high, i) - 4;
    to[i] = d * static_cast<float>(scale_of(scales, i / 16)) * static_cast<float>(x);
  }
}

void decode_q4_k(float* to, Bytes block) { decode_with_minimum<4>(to, block); }
void decode_q5_k(float* to, Bytes block) { decode_with_minimum<5>(to, block); }

void decode_q6_k(float* to, Bytes block) {
  const Bytes low = block, high = low + 128, scales = high + 64;
  const float d = half_at(scales + 16);
  for (int i = 0; i < kBlock; ++i) {
    const int x = (packed<4, 64>(low, i) | packed<2, 32>(high, i) << 4) - 32;
    to[i] = d * static_cast<float>(static_cast<signed char>(scales[i / 16])) * static_cast<float>(x);
  }
}
