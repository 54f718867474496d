#pragma once
// The number formats of ggml in which we write GGUF files. They round as ggml does: to nearest, ties to even, but in
// Q8_0 ties away from zero (ggml/src/ggml-impl.h; quantize_row_q8_0_ref in ggml/src/ggml-quants.c).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

struct GgmlType {
  const char* name;    // as in --dtype
  uint32_t id;         // enum ggml_type
  uint32_t file_type;  // general.file_type of a file with such matrices
  size_t block, bytes;  // numbers and bytes in a block; a row is whole blocks
  float limit;         // larger numbers would become infinite
  // Appends n numbers, a multiple of `block`.
  void (*encode)(std::string& to, const float* from, size_t n);
};

extern const GgmlType kF32, kF16, kBf16, kQ8;
const GgmlType& find_ggml_type(std::string_view name);  // throws std::invalid_argument

uint16_t half_of_float(float x);      // IEEE 754 binary16
uint16_t bfloat16_of_float(float x);  // the upper half of a float
