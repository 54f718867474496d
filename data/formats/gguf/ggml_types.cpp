#include "ggml_types.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "ggml_blocks.hpp"

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

// A format that we only read.
GgmlType read_only(const char* name, uint32_t id, size_t bytes, size_t block,
                   void (*decode)(float* to, const unsigned char* block)) {
  return {{name, "", "", bytes, 0, nullptr}, id, 0, block, decode};
}

}  // namespace

const GgmlType kF32 = {kFloat32, 0, 0, 1, decode_f32}, kF16 = {kFloat16, 1, 1, 1, decode_f16},
               kBf16 = {kBfloat16, 30, 32, 1, decode_bf16};
const GgmlType kQ8 = {{"q8_0", "", "", 2 + kQ8Block, 65504 * 127.f, encode_q8}, 8, 7, kQ8Block, decode_q8_0};

namespace {

const GgmlType kReadOnly[] = {
    read_only("q4_0", 2, 18, 32, decode_q4_0),    read_only("q4_1", 3, 20, 32, decode_q4_1),
    read_only("q5_0", 6, 22, 32, decode_q5_0),    read_only("q5_1", 7, 24, 32, decode_q5_1),
    read_only("q2_k", 10, 84, 256, decode_q2_k),  read_only("q3_k", 11, 110, 256, decode_q3_k),
    read_only("q4_k", 12, 144, 256, decode_q4_k), read_only("q5_k", 13, 176, 256, decode_q5_k),
    read_only("q6_k", 14, 210, 256, decode_q6_k)};

// Formats that we do not read, for messages.
constexpr struct {
  uint32_t id;
  const char* name;
} kOthers[] = {{16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"},
               {21, "IQ3_S"},   {22, "IQ2_S"},  {23, "IQ4_XS"},  {24, "I8"},    {25, "I16"},
               {26, "I32"},     {27, "I64"},    {28, "F64"},     {29, "IQ1_M"}, {34, "TQ1_0"},
               {35, "TQ2_0"},   {39, "MXFP4"},  {40, "NVFP4"}};

std::string upper_case(std::string name) {
  for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

}  // namespace

const GgmlType& find_ggml_type(std::string_view name) {
  for (const GgmlType* type : {&kF32, &kF16, &kBf16, &kQ8})
    if (name == type->name) return *type;
  throw std::invalid_argument("--dtype " + std::string(name) + " is not one of f32, f16, bf16 and q8_0");
}

const GgmlType* find_ggml_type(uint32_t id) {
  for (const GgmlType* type : {&kF32, &kF16, &kBf16, &kQ8})
    if (id == type->id) return type;
  for (const GgmlType& type : kReadOnly)
    if (id == type.id) return &type;
  return nullptr;
}

std::string name_of_ggml_type(uint32_t id) {
  if (const GgmlType* type = find_ggml_type(id)) return upper_case(type->name);
  for (const auto& [known, name] : kOthers)
    if (id == known) return name;
  return std::to_string(id);
}

std::string readable_ggml_types() {
  std::string list;
  for (const GgmlType* type : {&kF32, &kF16, &kBf16, &kQ8}) list += upper_case(type->name) + ", ";
  for (const GgmlType& type : kReadOnly) list += upper_case(type.name) + ", ";
  return list.substr(0, list.size() - 2);
}
