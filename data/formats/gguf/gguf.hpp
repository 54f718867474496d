#pragma once
// GGUF version 3, the files of llama.cpp (ggml-org/ggml, docs/gguf.md). Numbers are little-endian:
//
//   "GGUF", u32 3, u64 number of tensors, u64 number of keys
//   keys     string, u32 type, value; a string is u64 bytes and the bytes; an array is u32 type, u64 count, the values
//   tensors  string, u32 number of dimensions, u64 dimensions, u32 type, u64 offset
//   padding to 32 bytes, then the data. Offsets count from here, in the order of the tensors; each is padded likewise
//
// Dimensions are reversed: a row-major matrix (out, in) has the dimensions in, out, and its bytes are the same.
//
// Norms, biases and learned positions are in f32 whatever --dtype says, and Q8_0 matrices whose rows are not whole
// blocks of 32 in f16, as llama.cpp's convert_hf_to_gguf.py has them.

#include <string>

#include "data/formats/other_model.hpp"

// Throws std::invalid_argument naming the option that llama.cpp, or the number format, cannot express.
void check_gguf(const ExportedModel& exported);
std::string write_gguf(const std::string& out, const ExportedModel& exported);
