#pragma once
// The number formats of ggml's tensors that GGUF files are written in, rounded as ggml rounds: to the nearest, ties to
// even, and in Q8_0 halves away from zero (ggml/src/ggml-impl.h; quantize_row_q8_0_ref in ggml/src/ggml-quants.c).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

struct GgmlType {
  const char* name;    // as --dtype says it
  uint32_t id;         // enum ggml_type
  uint32_t file_type;  // general.file_type of a file whose matrices have it
  size_t block, bytes;  // numbers in a block, and its size; a row is whole blocks
  float limit;         // larger numbers would become infinite
  // Appends n numbers, a multiple of `block`.
  void (*encode)(std::string& to, const float* from, size_t n);
};

extern const GgmlType kF32, kF16, kBf16, kQ8;
const GgmlType& find_ggml_type(std::string_view name);  // throws std::invalid_argument

uint16_t half_of_float(float x);      // IEEE 754 binary16
uint16_t bfloat16_of_float(float x);  // the upper half of a float
