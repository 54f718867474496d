#pragma once
// The token embedding.
//
//   tokens (N)   weight (V,C)   x (N,C)
//   forward   x[n,:] = scale·weight[tokens[n],:]
//   backward  dweight[tokens[n],:] += scale·dx[n,:]      a token that occurs twice receives two gradients

#include <cstddef>

namespace textbook {

template <class Number>
void embedding_forward(Number* x, const int* tokens, const Number* weight, size_t N, size_t C,
                       double scale = 1) {
  for (size_t n = 0; n < N; ++n)
    for (size_t c = 0; c < C; ++c) x[n * C + c] = scale * weight[tokens[n] * C + c];
}

template <class Number>
void embedding_backward(Number* dweight, const int* tokens, const Number* dx, size_t N, size_t C,
                        double scale = 1) {
  for (size_t n = 0; n < N; ++n)
    for (size_t c = 0; c < C; ++c) dweight[tokens[n] * C + c] += scale * dx[n * C + c];  // x[n,:] = scale·weight
}

}  // namespace textbook
