#pragma once
//   logits (N,V)   targets (N), kIgnore for rows that do not count   losses (N)
//   forward   loss[n] = log Σᵥ exp(logits[n,v]) − logits[n,target]          0 where ignored
//   backward  dlogits[n,v] = scale·(softmax(logits[n,:])[v] − [v = target])  0 where ignored
//
// and the classifier around it, logits = x weightᵀ, which never holds more than a few hundred rows of (N,V):
//   x (N,C)   weight (V,C)
//   backward  dx = dlogits weight      dweight += dlogitsᵀ x

#include "gemm.hpp"

constexpr int kIgnore = -1;

// dlogits may be logits, or null for the losses alone.
void cross_entropy(float* losses, float* dlogits, const float* logits, const int* targets, float scale, int N,
                   int V);

// Rows of logits that are held at a time.
int classifier_rows(int N, int V);

// Losses of all rows; with dx also the gradients, in the same pass. logits: scratch of classifier_rows · V.
void classifier(float* losses, float* dx, float* dweight, const float* x, const float* weight,
                const int* targets, float scale, float* logits, int N, int C, int V, Matmul matmul = Matmul::fp32);
