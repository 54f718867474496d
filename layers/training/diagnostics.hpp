#pragma once
// Statistics of a training pass for each layer: gradient norms, the stream, each norm's input and output, the entropy
// of attention, the size of the update. Each number is a row: layer, part, what, value.
//
//   part            what           value
//   a tensor        grad_norm      ‖∂L/∂w‖ (Frobenius), over all micro-batches together. With many of them it is the
//                                  norm of the expected gradient (Xiong et al. 2020, arXiv 2002.04745)
//                   update_ratio   ‖w' − w‖ / ‖w‖, w' the tensor after the step, decay included; none if w = 0
//   stream          grad_norm      ‖∂L/∂y‖, y (S,N,C) the block's output, L the mean loss, before clipping
//                   rms            √mean(y²) over all elements
//                   max            max |y|
//                   kurtosis       mean((y − μ)⁴) / mean((y − μ)²)² − 3: 0 for normal numbers, large with outliers
//   stream.0, ...   the same for each stream, if there are several
//   a norm          rms_before, max_before, kurtosis_before: the same for its input; ..._after: for its output
//                   gain_mean, gain_min, gain_max, gain_rms: of 1 + w if the gain has a unit offset; of LayerScale's
//                   and ReZero's gains too (part ...scale), and of Admin's ω (part ...skip)
//                   alpha, shift   of DyT and Derf
//   gpas            gate           g of GPAS
//   attention, ffn  branch_ratio   rms(what the branch adds) / rms(skip·x), or rms(skip·ω ⊙ x) under Admin; for mixed
//                                  streams and SiameseNorm rms(f) / rms(skip·h), h what the branch reads
//   ... .streams    carry_in, carry_out: mean over tokens of the largest Σ |carry| into a stream, and out of one: the
//                                  gains of mHC's fig. 3 (Xie et al. 2025, arXiv 2512.24880)
//   attention       entropy        mean over rows and heads of −Σⱼ P[t,j] log P[t,j] / log t, t ≥ 2 the number of keys
//                                  that row sees (in its window and its example): 1 is even attention, 0 a single key.
//                                  −Σ P log P: Zhai et al. 2023, arXiv 2303.06296; divided by log t so that short
//                                  and long rows count alike
//                   max_logit      largest score that softmax reads: q·k/√D, changed by scale, cap and ALiBi
//                                  (its growth: Wortsman et al. 2023, arXiv 2309.14322)
//   ffn.expert.I    load           tokens that chose expert I, divided by their mean over the experts N·k/E
//   ffn.router      max_load       the largest load
//                   dropped        tokens without a place in an expert: 0, because an expert takes all of its tokens
//                   entropy        mean over tokens of −Σᵢ sᵢ log sᵢ / log E: 1 is an undecided router
//   model           update         mean over tokens of ‖h(x,θ) − h(x,θ₀)‖, h what the classifier reads, x a fixed
//                                  batch (‖F(x,θᵢ) − F(x,θ₀)‖ of DeepNet, Wang et al. 2022, arXiv 2203.00555)
//
// Norms are measured after dropout; the output of the embedding's norm is measured after the embedding's dropout.
// norm_out's output is s − skip·x, and norm_in's is u / in_scale. Sums are in double, over fixed chunks in a fixed
// order. A value that does not exist (the kurtosis of a constant) has no row.

#include <string>
#include <vector>

#include "step.hpp"

struct Statistic {
  int layer;  // kOutside outside of the blocks
  std::string part, what;
  double value;
};
using Statistics = std::vector<Statistic>;

struct Distribution {
  double rms, max, kurtosis;
};
Distribution distribution_of(const float* x, size_t n);

// Statistics of attention, from the rows of q and k after RoPE and the log-sum-exp that forward saved.
struct AttentionStatistics {
  double entropy, max_logit;
};
AttentionStatistics attention_statistics(const QkvRows<const float>& x, const float* lse, const AttentionShape& shape);

// Collects statistics of the activations and of the stream's gradient in one backward pass, from the last block to the
// first.
class PassStatistics : public StepObserver {
 public:
  explicit PassStatistics(const Model& model) : model_(model) {}

  void block(int layer, const float* x, const BlockSaved& saved, const float* dy, const Batch& batch) override;
  void outside(const StackActivations& activations, const float* y, const Batch& batch, bool encoder) override;

  Statistics rows;  // those of an encoder have parts "encoder..."; layers are counted in each stack

 protected:
  const Model& model_;

 private:
  void enter_stack(bool encoder) {
    encodes_ = encoder;
    stack_ = encoder ? "encoder." : "";
  }
  const Config& config() const { return encodes_ ? model_.encoder : model_.config; }
  void add(int layer, const std::string& part, const char* what, double value);
  void norm(int layer, const std::string& name, const Distribution& before, const Distribution& after);
  // A branch's input, the stream that it is added to, the input h (N,width) of its last matrix, and what a bypass adds.
  struct BranchView {
    int layer;
    std::string name;
    const float *x, *base, *h;
    int width, N, rows;  // rows of h
    const float* bypass = nullptr;
  };
  void router(int layer, const RouterSaved& saved, int N);
  void branch(const BranchView& view, const BranchSaved& saved, const Branch& p);
  void mixing(const BranchView& view, const BranchSaved& saved, const Branch& p);
  void norms_of_streams(int layer, const std::string& name, const float* x, const StreamsSaved& saved,
                        const Streams& p, int N);
  void stream(int layer, const std::string& part, const float* y, const float* dy, size_t n);
  void qk_norm(int layer, const std::string& name, const InPlaceNormSaved& saved, const Norm& p, int heads, int N);
  void attention(int layer, const std::string& name, const AttentionBranchSaved& saved, const AttentionBranch& p,
                 const QkvRows<const float>& x, const AttentionShape& shape);

  bool encodes_ = false;
  std::string stack_;
};

// Adds grad_norm of every trained tensor and gain_..., alpha, shift of every norm, from model.gradients and
// model.weights.
void add_tensor_statistics(Statistics& rows, const Model& model);

// Adds update_ratio of every trained tensor. `before` are the weights before the step, in the table's layout.
void add_update_ratios(Statistics& rows, const Model& model, const float* before);

// Returns the model's `update` from h, h0 (N,C). Rows whose target is kIgnore do not count.
double model_update(const float* h, const float* h0, const int* targets, int N, int C);
