#include "float_types.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "data/strings/format.hpp"
#include "layers/kernels/numbers.hpp"

float float_of_half(uint16_t bits) { return widened(Float16{bits}); }
float float_of_bfloat16(uint16_t bits) { return widened(Bfloat16{bits}); }
uint16_t half_of_float(float x) { return rounded<Float16>(x).bits; }
uint16_t bfloat16_of_float(float x) { return rounded<Bfloat16>(x).bits; }

namespace {

void encode_f32(std::string& to, const float* from, size_t n) {
  to.append(reinterpret_cast<const char*>(from), n * sizeof(float));
}

template <uint16_t (*convert)(float)>
void encode_16(std::string& to, const float* from, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint16_t bits = convert(from[i]);
    to.append(reinterpret_cast<const char*>(&bits), sizeof bits);
  }
}

}  // namespace

const FloatType kFloat32 = {"f32", "F32", "float32", 4, std::numeric_limits<float>::max(), encode_f32};
const FloatType kFloat16 = {"f16", "F16", "float16", 2, 65504, encode_16<half_of_float>};
const FloatType kBfloat16 = {"bf16", "BF16", "bfloat16", 2, 0x1.fep127f, encode_16<bfloat16_of_float>};

std::string dtype_of_stored(const std::string& stored) {
  for (const FloatType* type : {&kFloat32, &kFloat16, &kBfloat16})
    if (stored == type->stored) return type->name;
  return "";
}

const FloatType& find_float_type(const std::string& name) {
  for (const FloatType* type : {&kFloat32, &kFloat16, &kBfloat16})
    if (name == type->name) return *type;
  throw std::invalid_argument("--dtype " + name + " is not one of f32, f16 and bf16");
}

void check_limit(float x, float limit, const std::string& type, const std::string& tensor) {
  if (std::abs(x) <= limit) return;
  if (!std::isfinite(x)) throw std::runtime_error("the model cannot be exported: " + tensor + " is not finite");
  throw std::invalid_argument("--dtype " + type + " cannot hold " + format("%g", x) + ", which is in " + tensor +
                              ": use --dtype f32");
}
