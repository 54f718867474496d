#pragma once
// The number formats of ggml. We read all of these and write some. Those that we write round as ggml does: to nearest,
// ties to even, but in Q8_0 ties away from zero (ggml/src/ggml-impl.h; quantize_row_q8_0_ref in
// ggml/src/ggml-quants.c).

#include <cstdint>
#include <string>
#include <string_view>

#include "data/formats/float_types.hpp"

// A number format. FloatType::bytes is the size of a block here, and encode() takes whole blocks. It is null for a
// format that we only read.
struct GgmlType : FloatType {
  uint32_t id;         // enum ggml_type
  uint32_t file_type;  // general.file_type of a file with such matrices, if we write it
  size_t block;        // numbers in a block; a row is whole blocks
  void (*decode)(float* to, const unsigned char* block);  // writes the numbers of one block
};

extern const GgmlType kF32, kF16, kBf16, kQ8;
const GgmlType& find_ggml_type(std::string_view name);  // one that we write; throws std::invalid_argument

const GgmlType* find_ggml_type(uint32_t id);  // null if we cannot read it
std::string name_of_ggml_type(uint32_t id);   // of any type: "IQ4_XS", "99"
std::string readable_ggml_types();            // "F32, F16, ..."
