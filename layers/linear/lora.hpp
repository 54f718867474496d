#pragma once
// Low-rank adapters of a linear layer (LoRA, Hu et al. 2021, arXiv 2106.09685):
//   x (N,I)   a (r,I)   b (O,r)   y (N,O)   s = alpha/r   m: dropout of x, as in dropout.hpp
//   forward   y  += s·(m∘x) aᵀ bᵀ
//   backward  dlow = s·dy b      db += s·dyᵀ low, low = (m∘x) aᵀ      da += dlowᵀ (m∘x)      dx += m∘(dlow a)
//   saves     nothing: low is computed again
// b starts at 0, so training starts from the unchanged model.

#include "layers/dropout/dropout.hpp"
#include "linear.hpp"

// Scratch that all adapters of a model share: low and dlow (N,r); dropped (N, widest input), null without dropout.
struct LoraScratch {
  float *low = nullptr, *dlow = nullptr, *dropped = nullptr;
};
LoraScratch declare_lora_scratch(Layout& layout, const Config& config, int N, int widest_input, bool backward);

// The dropout of one matrix's input.
struct LoraDropout {
  Dropout dropout;  // p = 0 means none
  int layer;
  DropoutSite site;
  int B, T;
};

void lora_forward(float* y, const float* x, const std::vector<Lora>& p, const LinearShape& shape,
                  const LoraScratch& scratch, const LoraDropout& dropout);
void lora_backward(float* dx, const std::vector<Lora>& g, const float* dy, const float* x, const std::vector<Lora>& p,
                   const LinearShape& shape, const LoraScratch& scratch, const LoraDropout& dropout);

// weight (O,I) += s·b a
void lora_merge(float* weight, const std::vector<Lora>& p, int I);
