#pragma once
//   x (N,I)   weight (O,I)   bias (O) or none   y (N,O)
//   forward   y  = x weightᵀ + bias
//   backward  dx = dy weight      dweight += dyᵀ x      dbias += Σₙ dy[n,:]
//   saves     nothing: the caller still holds x

#include <string>
#include <vector>

#include "layers/config/placements.hpp"

// Parameters, or their gradients. Absent: null.
struct Linear {
  float* weight = nullptr;
  float* bias = nullptr;
  Matmul matmul = Matmul::fp32;
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

// Sums over rows are taken by blocks of so many rows, and then over the blocks: the order is the same for any number of
// threads, and rows of a block can be summed in float.
constexpr int kRowBlock = 64;
inline int row_blocks(int N) { return (N + kRowBlock - 1) / kRowBlock; }

// out (C) += Σₙ x[n,:]; for biases and positions. Blocks are summed in float and added in double: the rounding error is
// that of 64 additions, however large N is.
void add_column_sums(float* out, const float* x, int N, int C);
