#pragma once
// The number formats of ggml in which we write GGUF files. They round as ggml does: to nearest, ties to even, but in
// Q8_0 ties away from zero (ggml/src/ggml-impl.h; quantize_row_q8_0_ref in ggml/src/ggml-quants.c).

#include <cstdint>
#include <string_view>

#include "data/formats/float_types.hpp"

// A number format. FloatType::bytes is the size of a block here, and encode() takes whole blocks.
struct GgmlType : FloatType {
  uint32_t id;         // enum ggml_type
  uint32_t file_type;  // general.file_type of a file with such matrices
  size_t block;        // numbers in a block; a row is whole blocks
};

extern const GgmlType kF32, kF16, kBf16, kQ8;
const GgmlType& find_ggml_type(std::string_view name);  // throws std::invalid_argument
