#pragma once
//   x (N,I)   weight (O,I)   bias (O) or none   y (N,O)
//   forward   y  = x weightᵀ + bias
//   backward  dx = dy weight      dweight += dyᵀ x      dbias += Σₙ dy[n,:]
//   saves     nothing: the caller still holds x

#include <string>
#include <vector>

#include "layers/config/placements.hpp"

// A low-rank adapter of `out` rows of the weight, from row `begin` on (lora.hpp). Holds parameters or their gradients.
struct Lora {
  float *a, *b;  // (rank,I) (out,rank)
  int begin, out, rank;
  float scale;
};

// Parameters, or their gradients. What is absent is null, and so is the gradient of a matrix that does not train.
struct Linear {
  float* weight = nullptr;
  float* bias = nullptr;
  Matmul matmul = Matmul::fp32;
  std::vector<Lora> lora = {};
  NumberType numbers = NumberType::fp32;  // of the weight
};

// A matrix of a Linear. Matrices with the same input that are contiguous in memory are one product: q, k and v are
// three rows of the table and one Linear. Either all have a bias or none has (has_bias).
struct LinearPart {
  const char* name;
  Role role;
  int out;
  Growth growth = Growth::both;
};
Linear declare_linear(Layout& layout, const Config& config, const std::string& prefix,
                      const std::vector<LinearPart>& parts, int in);

struct LinearShape {
  int N, I, O;  // rows, inputs, outputs
};

void linear_forward(float* y, const float* x, const Linear& p, const LinearShape& shape);
void linear_backward(float* dx, const Linear& g, const float* dy, const float* x, const Linear& p,
                     const LinearShape& shape);
