#pragma once
// AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101; Adam: Kingma & Ba 2015, arXiv 1412.6980), t counted from 1:
//   m ← β₁ m + (1 − β₁) g            v ← β₂ v + (1 − β₂) g²
//   w ← w − lr·weight_decay·w        for tensors that decay
//   w ← w − lr · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + eps)
// lr is the step's learning rate times the tensor's `rate`.
// Clipping by the global norm (Pascanu et al. 2013, arXiv 1211.5063): g ← g · min(1, clip / (‖g‖ + 1e-6)).

#include <cstdint>
#include <span>
#include <vector>

#include "layers/config/tensors.hpp"
#include "layers/kernels/buffer.hpp"

struct AdamW {
  float beta1 = .9f, beta2 = .95f, eps = 1e-8f, weight_decay = .1f;
};

// Tensors are processed in pieces of so many floats, the last of a tensor shorter.
inline constexpr size_t kPiece = 1 << 15;

// Σg² of each piece of the trained tensors, in double. Gradients are at TensorSpec::gradient.
std::vector<double> gradient_squares(const float* gradients, const std::vector<TensorSpec>& table);

// √Σg² over the trained tensors: the squares of the pieces, added in their order.
double gradient_norm(const float* gradients, const std::vector<TensorSpec>& table);

// The factor on gradients; clip = 0 never clips.
float clip_factor(double norm, double clip);

// One step on every trained tensor: weights at TensorSpec::offset, the other three at TensorSpec::gradient.
void adamw_step(float* weights, float* m, float* v, const float* gradients, const std::vector<TensorSpec>& table,
                const AdamW& options, float lr, float gradient_factor, int64_t t);

// The state of an optimizer between steps: one buffer in the layout of the gradients per slot.
using OptimizerState = std::vector<Buffer>;
std::vector<float*> slots_from(const OptimizerState& state, size_t offset = 0);  // pointers into each slot

// A row of the table of optimizers. Training, checkpoints and estimates of memory read it.
struct Optimizer {
  const char* name;
  std::span<const char* const> slots;  // the numbers kept for each weight, by the names that checkpoints give them
  bool (*takes)(const TensorSpec&);    // the tensors that it updates
  void (*update)(float* weights, std::span<float* const> state, const float* gradients,
                 const std::vector<TensorSpec>& table, const AdamW& options, float lr, float gradient_factor,
                 int64_t t);
};
extern const Optimizer kAdamW;  // m and v

// Learning-rate schedule: linear warm-up over `warmup` steps to lr, then decay to min_lr at `steps` along half a cosine
// (Loshchilov & Hutter 2017, arXiv 1608.03983) or a line, or no decay. After `steps` the rate stays.
enum class Schedule { cosine, linear, constant };
struct LearningRate {
  double lr = 3e-3, min_lr = 3e-4;
  int64_t warmup = 100;
  Schedule schedule = Schedule::cosine;

  double at(int64_t step, int64_t steps) const;
};
