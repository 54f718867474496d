#pragma once
//   logits (N,V)   targets (N), kIgnore for rows that do not count   losses (N)
//   forward   loss[n] = log Σᵥ exp(logits[n,v]) − logits[n,target]          0 where ignored
//   backward  dlogits[n,v] = scale·(softmax(logits[n,:])[v] − [v = target])  0 where ignored
//
// The z-loss (PaLM: Chowdhery et al. 2022, arXiv 2204.02311, section 5) keeps log Z = log Σᵥ exp(logits[n,v]) near 0.
// Training adds the gradient of z_loss·log²Z; the returned losses leave it out:
//   backward  dlogits[n,v] += scale·2·z_loss·log Z·softmax(logits[n,:])[v]
//
// Label smoothing (Szegedy et al. 2016, arXiv 1512.00567, §7) makes the probabilities of a target
// (1 − ε)·[v = target] + ε/V. The returned losses leave it out, too:
//   backward  dlogits[n,v] += scale·ε·([v = target] − 1/V)
//
// The classifier around it never holds more than classifier_rows rows of (N,V):
//   x (N,C)   weight (V,C)   bias (V) or none
//   forward   u = x weightᵀ + bias     logits = c·tanh(s·u/c), or s·u if the cap c is 0
//             (cap: Gemma 2, Riviere et al. 2024, arXiv 2408.00118; scale s: Granite, Command R)
//   backward  du = s·dlogits·(1 − (logits/c)²)   dx = du weight      dweight += duᵀ x      dbias += Σₙ du[n,:]

#include "layers/linear/linear.hpp"

constexpr int kIgnore = -1;

// What keeps logits small. 0 turns the cap, the z-loss and the smoothing off.
struct LogitLimits {
  float cap = 0, z_loss = 0, scale = 1, smoothing = 0;
};

// dlogits may be logits, or null to compute only the losses. Pass scaled and capped logits; dlogits receives du.
void cross_entropy(float* losses, float* dlogits, const float* logits, const int* targets, float scale, int N,
                   int V, LogitLimits limits = {});

// The classifier's parameters, or their gradients.
struct Head : Linear {
  LogitLimits limits;
};
void head_forward(float* logits, const float* x, const Head& p, int N, int C, int V);

// How many rows of logits are in memory at a time: as many as make 2²² numbers, at least 256, at most N.
int classifier_rows(int N, int V);

struct ClassifierBuffers {
  float* losses;  // (N)
  float* logits;  // (classifier_rows,V) scratch
};

// Computes the losses of all rows and, unless dx is null, the gradients in the same pass. The shape is {N, C, V}.
void classifier(const ClassifierBuffers& out, float* dx, const Head& g, const float* x, const Head& p,
                const int* targets, float scale, const LinearShape& shape);
