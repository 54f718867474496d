#pragma once
//   x (N,I)   weight (O,I)   bias (O) or none   y (N,O)
//   forward   y  = x weightᵀ + bias
//   backward  dx = dy weight      dweight += dyᵀ x      dbias += Σₙ dy[n,:]
//   saves     nothing: the caller still holds x

#include <string>
#include <vector>

#include "layers/config/placements.hpp"

// A low-rank adapter of `out` rows of the weight, from `begin` on; see lora.hpp. Parameters, or their gradients.
struct Lora {
  float *a, *b;  // (rank,I) (out,rank)
  int begin, out, rank;
  float scale;
};

// Parameters, or their gradients. Absent: null. So is the gradient of a matrix that does not train.
struct Linear {
  float* weight = nullptr;
  float* bias = nullptr;
  Matmul matmul = Matmul::fp32;
  std::vector<Lora> lora = {};
};

// Several matrices over the same input are one product if they lie behind one another: q, k and v are three
// rows of the table and one Linear. All of them have a bias, or none (has_bias).
struct LinearPart {
  const char* name;
  Role role;
  int out;
};
Linear declare_linear(Layout& layout, const Config& config, const std::string& prefix,
                      const std::vector<LinearPart>& parts, int in);

void linear_forward(float* y, const float* x, const Linear& p, int N, int I, int O);
void linear_backward(float* dx, const Linear& g, const float* dy, const float* x, const Linear& p, int N, int I,
                     int O);
