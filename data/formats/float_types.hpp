#pragma once
// Floats in files: 32 bits, and the two types of 16. Numbers are rounded to nearest, ties to even.

#include <cstddef>
#include <cstdint>
#include <string>

float float_of_half(uint16_t bits);      // IEEE 754 binary16; exact
float float_of_bfloat16(uint16_t bits);  // the upper half of a float; exact
uint16_t half_of_float(float x);
uint16_t bfloat16_of_float(float x);

struct FloatType {
  const char* name;    // as in --dtype
  const char* stored;  // in safetensors
  const char* torch;   // in PyTorch
  size_t bytes;
  float limit;         // larger numbers would become infinite
  void (*encode)(std::string& to, const float* from, size_t n);  // appends n numbers
};
extern const FloatType kFloat32, kFloat16, kBfloat16;
std::string dtype_of_stored(const std::string& stored);  // "BF16" → "bf16"; "" for any other type
const FloatType& find_float_type(const std::string& name);  // throws std::invalid_argument

// Throws if the number of this tensor is not finite (std::runtime_error) or above the limit of the type with this name
// (std::invalid_argument).
void check_limit(float x, float limit, const std::string& type, const std::string& tensor);
