#pragma once
// Writes GGUF version 3, llama.cpp's file format (ggml-org/ggml, docs/gguf.md). Numbers are little-endian:
//
//   "GGUF", u32 3, u64 number of tensors, u64 number of keys
//   keys     string, u32 type, value; a string is u64 bytes and the bytes; an array is u32 type, u64 count, the values
//   tensors  string, u32 number of dimensions, u64 dimensions, u32 type, u64 offset
//   padding to 32 bytes, then the data in the order of the tensors. Offsets count from here; each tensor is padded, too
//
// Dimensions are reversed: a row-major matrix (out, in) has the dimensions in, out, and its bytes are the same.
//
// As in llama.cpp's convert_hf_to_gguf.py, norms, biases and learned positions are always in f32, and Q8_0 matrices
// whose rows are not whole blocks of 32 are in f16.

#include <string>

#include "data/formats/foreign_model.hpp"

// Throws std::invalid_argument that names the option that llama.cpp or the number format cannot express.
void check_gguf(const ExportedModel& exported);
std::string write_gguf(const std::string& out, const ExportedModel& exported);
