#pragma once
//   tokens (N)   weight (V,C)   x (N,C)
//   forward   x[n,:] = scale·weight[tokens[n],:]     scale 1, or √C: Vaswani et al. 2017, arXiv 1706.03762, §3.4; Gemma
//   backward  dweight[tokens[n],:] += scale·dx[n,:]  a token that occurs twice collects twice
//   saves     nothing: the caller still holds the tokens

#include "layers/kernels/numbers.hpp"

// `numbers` says what the weight consists of.
void embedding_forward(float* x, const int* tokens, const float* weight, int N, int C, float scale = 1,
                       NumberType numbers = NumberType::fp32);
void embedding_backward(float* dweight, const int* tokens, const float* dx, int N, int C, float scale = 1);
