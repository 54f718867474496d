#pragma once
// The table of optimizers, gradient clipping and learning-rate schedules. With the gradient g, t counted from 1, and lr
// the step's learning rate times the tensor's `rate`. A tensor has factors on weight_decay and eps, too:
//
//   AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101; Adam: Kingma & Ba 2015, arXiv 1412.6980)
//     m ← β₁ m + (1 − β₁) g            v ← β₂ v + (1 − β₂) g²
//     w ← w − lr·weight_decay·w        for tensors that decay, and gains of norms if norm_decay is set
//     w ← w − lr · (m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + eps)
//     kAdamWBf16 stores m and v in bf16, rounded at random by a counter, so that changes too small for 8 bits of
//     precision are kept on average. w moves by the m and v before this rounding.
//   SGD with momentum, as PyTorch defines it (Polyak 1964; Nesterov 1983; Sutskever et al. 2013)
//     g ← g + weight_decay·w           b ← μ b + g           w ← w − lr·b, or lr·(g + μ b) with Nesterov
//   Lion (Chen et al. 2023, arXiv 2302.06675, algorithm 2)
//     w ← w − lr·weight_decay·w − lr·sign(β₁ m + (1 − β₁) g)            m ← β₂ m + (1 − β₂) g
//   Adafactor: adafactor.hpp. Muon and NorMuon: muon.hpp
//
// Clipping by the global norm (Pascanu et al. 2013, arXiv 1211.5063): g ← g · min(1, clip / (‖g‖ + 1e-6)).

#include <cstdint>
#include <span>
#include <vector>

#include "layers/config/parametrization.hpp"
#include "layers/kernels/buffer.hpp"

enum class MuonScale { spectral, rms };
enum class PolarIteration { newton_schulz, polar_express };

struct OptimizerOptions {
  double beta1 = .9, beta2 = .95;
  float eps = 1e-8f, weight_decay = .1f;
  float norm_decay = 0, output_norm_decay = 0;  // of gains, the second if is_output_norm
  double momentum = .95;  // SGD and Muon
  bool nesterov = true;   // SGD and Muon
  bool cautious_decay = false;  // not for SGD, whose decay is part of the gradient
  MuonScale muon_scale = MuonScale::rms;
  PolarIteration polar = PolarIteration::newton_schulz;
};

// Return the weight decay and the epsilon of a tensor. Matrices decay, and gains of norms if their decay is not 0.
float decay_of(const TensorSpec& spec, const OptimizerOptions& options);
inline float epsilon_of(const TensorSpec& spec, const OptimizerOptions& options) {
  return options.eps * spec.epsilon_factor;
}

// Tensors are processed in strips of this many floats; a tensor's last strip may be shorter.
inline constexpr size_t kStrip = 1 << 15;

// Returns Σg² of each strip of the trained tensors, in double. Gradients are at TensorSpec::gradient.
std::vector<double> gradient_squares(const float* gradients, const std::vector<TensorSpec>& table);

// Returns √Σg² over the trained tensors, adding the strips' squares in order.
double gradient_norm(const float* gradients, const std::vector<TensorSpec>& table);

// Returns the factor on gradients. clip = 0 never clips.
float clip_factor(double norm, double clip);

// ---- the table of optimizers -----------------------------------------------------------------------------

// State that an optimizer keeps for a tensor: one number for each weight, or for each row or column of a matrix.
enum class Per { weight, row, column };
struct Slot {
  const char* name;  // the name in checkpoints; PyTorch's if it has one
  Per per = Per::weight;
  NumberType numbers = NumberType::fp32;
};

// An update reads and writes weights at TensorSpec::offset, gradients at ::gradient, and state at ::state.
struct UpdateBuffers {
  float *weights, *state;
  const float* gradients;
  float* scratch = nullptr;
};
struct UpdateStep {
  float lr, gradient_factor;
  int64_t t;  // counted from 1
};

// One step of a table's tensors, all of which the row accepts.
using Update = void (*)(const UpdateBuffers& buffers, const std::vector<TensorSpec>& table,
                        const OptimizerOptions& options, const UpdateStep& step);

// A row of the table. Training, checkpoints, shards of ranks and estimates of memory read it.
struct Optimizer {
  const char* name;
  std::span<const Slot> slots;
  bool (*takes)(const TensorSpec&);  // true if it can update the tensor
  Update update;
  double (*flops)(const TensorSpec&);  // operations that updating a tensor takes
  double bytes;                        // bytes that an update moves per weight
  bool whole = false;                  // it needs whole tensors, so ranks cannot share one
  size_t (*scratch)(const std::vector<TensorSpec>& table) = nullptr;  // floats that an update needs; null for none
  bool betas = false, epsilon = false, momentum = false, polar = false;  // the options that the update reads
  bool decays_gradient = false;  // the decay is a part of the gradient
  StepRule rule = StepRule::sign;
};
extern const Optimizer kAdamW, kAdamWBf16, kSgd, kLion;

// The optimizer of a run. Rows are tried in order; a tensor belongs to the first that accepts it.
using Optimizers = std::span<const Optimizer* const>;
inline constexpr const Optimizer* kAdamWAlone[] = {&kAdamW};

// Sets the optimizer of each trained tensor, and the place of its state.
void assign_optimizers(std::vector<TensorSpec>& table, Optimizers rows);

// Sets the factors on learning rate, decay and epsilon of tensors that have an optimizer, as the parametrization says.
void set_factors(std::vector<TensorSpec>& table, const Config& config, MuonScale scale);

// Places the state of tensors that have an optimizer one after the other, from `begin` on. Returns the end.
size_t place_state(std::vector<TensorSpec>& table, size_t begin = 0);

// Returns the state as a table of tensors named SLOT.TENSOR, at their offsets.
std::vector<TensorSpec> state_table(const std::vector<TensorSpec>& table);
std::vector<TensorSpec> state_table(const TensorSpec& spec);
size_t state_floats(const std::vector<TensorSpec>& table);

// Return the rows that update a table's tensors, and the floats of scratch memory that they need.
std::vector<const Optimizer*> optimizers_of(const std::vector<TensorSpec>& table);
size_t scratch_floats(const std::vector<TensorSpec>& table);

// Returns the tensors of a table that a row updates.
std::vector<TensorSpec> tensors_of(const std::vector<TensorSpec>& table, const Optimizer& row);

// Learning-rate schedule: linear warm-up to lr, then decay to min_lr at `steps` along half a cosine
// (Loshchilov & Hutter 2017, arXiv 1608.03983) or a line, or no decay. After `steps` the rate stays constant. WSD
// (warm-up, stable, decay: Hu et al. 2024, arXiv 2404.06395) keeps lr until the last `decay` steps, which fall along a
// line (exponentially in the paper). The inverse square root lr·√((W + 1)/(s + 1)), W the steps of the warm-up, goes on
// after `steps` and has no min_lr (Vaswani et al. 2017, arXiv 1706.03762, eq. 3, with s + 1 counted from 1).
enum class Schedule { cosine, linear, constant, wsd, inverse_sqrt };
constexpr bool has_end(Schedule schedule) {
  return schedule != Schedule::constant && schedule != Schedule::inverse_sqrt;
}
struct LearningRate {
  double lr = 3e-3, min_lr = 3e-4;
  int64_t warmup = 100;  // steps
  Schedule schedule = Schedule::cosine;
  int64_t decay = 0;  // steps of WSD's decay; 0 means a tenth of all steps
  double warmup_percent = 0;  // if above 0, this percentage of the schedule's steps replaces `warmup`

  int64_t warmup_steps(int64_t steps) const;
  double at(int64_t step, int64_t steps) const;
};
