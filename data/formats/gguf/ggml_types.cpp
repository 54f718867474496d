#include "ggml_types.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <stdexcept>

namespace {

constexpr size_t kQ8Block = 32;

// A block holds a half-precision d and 32 signed bytes q; it stands for d·q. Rounding to q uses d before it is rounded
// to half precision.
void encode_q8(std::string& to, const float* from, size_t n) {
  for (const float* x = from; x < from + n; x += kQ8Block) {
    float largest = 0;
    for (size_t i = 0; i < kQ8Block; ++i) largest = std::max(largest, std::abs(x[i]));
    const float d = largest / 127, inverse = 1 / d;
    const uint16_t half = half_of_float(d);
    to.append(reinterpret_cast<const char*>(&half), sizeof half);
    for (size_t i = 0; i < kQ8Block; ++i)
      to += std::isfinite(inverse) ? static_cast<char>(static_cast<int>(std::round(x[i] * inverse))) : '\0';
  }
}

}  // namespace

const GgmlType kF32 = {kFloat32, 0, 0, 1}, kF16 = {kFloat16, 1, 1, 1}, kBf16 = {kBfloat16, 30, 32, 1};
const GgmlType kQ8 = {{"q8_0", "", "", 2 + kQ8Block, 65504 * 127.f, encode_q8}, 8, 7, kQ8Block};

const GgmlType& find_ggml_type(std::string_view name) {
  for (const GgmlType* type : {&kF32, &kF16, &kBf16, &kQ8})
    if (name == type->name) return *type;
  throw std::invalid_argument("--dtype " + std::string(name) + " is not one of f32, f16, bf16 and q8_0");
}
