#pragma once
//   tokens (N)   weight (V,C)   x (N,C)
//   forward   x[n,:] = weight[tokens[n],:]
//   backward  dweight[tokens[n],:] += dx[n,:]        a token that occurs twice collects twice
//   saves     nothing: the caller still holds the tokens

void embedding_forward(float* x, const int* tokens, const float* weight, int N, int C);
void embedding_backward(float* dweight, const int* tokens, const float* dx, int N, int C);
