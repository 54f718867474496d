#pragma once
// A weighted sum of two inputs.
//
//   x, z (N,W) → y (N,W)      factors a and b: learned, or one constant
//   forward   y = a·x + b·z
//   backward  dx = a·dy      dz += b·dy      da += Σ dy·x      db += Σ dy·z
//   saves     nothing: the caller still holds x (for da) and z (for db)
//
// It has two uses, both for tensors that cross layers:
//   value residual   x = v of this layer, z = v of the first, before attention    (ResFormer: Zhou et al. 2024, arXiv
//                    2410.17897; a = b = ½ in the authors' modeling_llama_resformer.py, 95652f6; learned from ½ in
//                    modded-nanogpt)
//   stream mix       x = the stream, z = x₀, the first block's input, before each block   (resid_lambdas and x0_lambdas
//                    of nanochat's gpt.py, 92d63d4)

#include <string>

#include "layers/config/tensors.hpp"

// Parameters, or their gradients. An absent mix costs nothing.
struct Mix {
  float *own = nullptr, *first = nullptr;  // a and b; null: both are `constant`
  float constant = 0;                      // 0 means absent, unless the factors are learned

  bool learned() const { return own != nullptr; }
  bool present() const { return learned() || constant != 0; }
};
Mix declare_mix(Layout& layout, const std::string& name, float own, float first);

// N rows of W numbers each, `stride` apart.
struct MixRows {
  int N, W;
  size_t stride;
};

// The rows of z are dense. y may be x.
void mix_forward(float* y, const float* x, const float* z, const Mix& p, const MixRows& rows);

// d holds dy before the call and dx after it. dz is overwritten, or with `add` added to. The rows of dz, x and z are
// dense; x may be null if the factors are constants.
void mix_backward(float* d, float* dz, bool add, const Mix& g, const float* x, const float* z, const Mix& p,
                  const MixRows& rows);
