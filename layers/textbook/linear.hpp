#pragma once
// The linear layer.
//
//   x (N,I)   weight (O,I)   bias (O) or null   y (N,O)
//   forward   y  = x weightᵀ + bias
//   backward  dx = dy weight      dweight += dyᵀ x      dbias += Σₙ dy[n,:]

#include <cstddef>

namespace textbook {

struct LinearShape {
  size_t N, I, O;  // rows, inputs, outputs
};

template <class Number>
void linear_forward(Number* y, const Number* x, const Number* weight, const Number* bias, const LinearShape& shape) {
  const auto [N, I, O] = shape;
  for (size_t n = 0; n < N; ++n)
    for (size_t o = 0; o < O; ++o) {
      Number sum = bias ? bias[o] : Number(0);
      for (size_t i = 0; i < I; ++i) sum += x[n * I + i] * weight[o * I + i];
      y[n * O + o] = sum;
    }
}

template <class Number>
void linear_backward(Number* dx, Number* dweight, Number* dbias, const Number* dy, const Number* x,
                     const Number* weight, const LinearShape& shape) {
  const auto [N, I, O] = shape;
  for (size_t n = 0; n < N; ++n)
    for (size_t i = 0; i < I; ++i) {
      Number sum = 0;
      for (size_t o = 0; o < O; ++o) sum += dy[n * O + o] * weight[o * I + i];  // y = Σᵢ x[n,i]·weight[o,i]
      dx[n * I + i] = sum;
    }
  for (size_t n = 0; n < N; ++n)
    for (size_t o = 0; o < O; ++o) {
      for (size_t i = 0; i < I; ++i) dweight[o * I + i] += dy[n * O + o] * x[n * I + i];  // y = Σᵢ x·weight
      if (dbias) dbias[o] += dy[n * O + o];                                               // y = bias[o] + ...
    }
}

}  // namespace textbook
