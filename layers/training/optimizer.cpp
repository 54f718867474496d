#include "optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

// A piece of a tensor: small enough to share work evenly, large enough that scheduling it costs nothing.
struct Piece {
  size_t weights, gradients, size;  // offsets, and the number of elements
  bool decay;
  float rate;  // of the learning rate
};

bool is_trained(const TensorSpec& spec) { return spec.trained; }

std::vector<Piece> pieces_of(const std::vector<TensorSpec>& table, bool (*takes)(const TensorSpec&)) {
  std::vector<Piece> pieces;
  for (const TensorSpec& spec : table) {
    if (!takes(spec)) continue;
    for (size_t i = 0; i < spec.size(); i += kPiece)
      pieces.push_back(
          {spec.offset + i, spec.gradient + i, std::min(spec.size() - i, kPiece), spec.decay, spec.rate});
  }
  return pieces;
}

// Σx² in double: lanes of float would lose the last digits of a sum over millions.
double sum_of_squares(const float* x, size_t n) {
  simd::Half low = {}, high = {};
  sweep(static_cast<int>(n), [&](int i, int lanes) {
    const simd::Halves v = simd::widen(load(x + i, lanes));
    low += v.low * v.low;
    high += v.high * v.high;
  });
  return simd::sum(low + high);
}

}  // namespace

std::vector<double> gradient_squares(const float* gradients, const std::vector<TensorSpec>& table) {
  const std::vector<Piece> pieces = pieces_of(table, is_trained);
  std::vector<double> squares(pieces.size());
  parallel_for(static_cast<int>(pieces.size()), 1, kPiece, [&](int begin, int end) {
    for (int i = begin; i < end; ++i)
      squares[i] = sum_of_squares(gradients + pieces[i].gradients, pieces[i].size);
  });
  return squares;
}

double gradient_norm(const float* gradients, const std::vector<TensorSpec>& table) {
  const std::vector<double> squares = gradient_squares(gradients, table);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.));
}

float clip_factor(double norm, double clip) {
  return clip > 0 ? static_cast<float>(std::min(clip / (norm + 1e-6), 1.0)) : 1.f;
}

void adamw_step(float* weights, float* m, float* v, const float* gradients, const std::vector<TensorSpec>& table,
                const AdamW& options, float lr, float gradient_factor, int64_t t) {
  const std::vector<Piece> pieces = pieces_of(table, kAdamW.takes);
  const float beta1 = options.beta1, beta2 = options.beta2, eps = options.eps;
  // lr · (m / c₁) / (√(v / c₂) + eps) = (lr / c₁) m / (√v / √c₂ + eps)
  const float step = static_cast<float>(lr / (1 - std::pow(static_cast<double>(beta1), t)));
  const float root = static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(beta2), t)));
  parallel_for(static_cast<int>(pieces.size()), 1, kPiece, [&](int begin, int end) {
    for (int q = begin; q < end; ++q) {
      const float keep = pieces[q].decay ? 1 - lr * pieces[q].rate * options.weight_decay : 1;
      const float rate = step * pieces[q].rate;
      const size_t at = pieces[q].gradients;
      float* w = weights + pieces[q].weights;
      sweep(static_cast<int>(pieces[q].size), [&](int i, int lanes) {
        const Vec g = load(gradients + at + i, lanes) * gradient_factor;
        Vec mean = load(m + at + i, lanes), square = load(v + at + i, lanes);
        mean += (1 - beta1) * (g - mean);
        square += (1 - beta2) * (g * g - square);
        store(m + at + i, mean, lanes);
        store(v + at + i, square, lanes);
        const Vec change = rate * mean / (simd::sqrt(square) * root + eps);
        store(w + i, keep * load(w + i, lanes) - change, lanes);
      });
    }
  });
}

std::vector<float*> slots_from(const OptimizerState& state, size_t offset) {
  std::vector<float*> slots;
  for (const Buffer& slot : state) slots.push_back(slot.get() + offset);
  return slots;
}

constexpr const char* kMoments[] = {"exp_avg", "exp_avg_sq"};  // PyTorch's names for m and v

const Optimizer kAdamW = {
    "adamw", kMoments, is_trained,
    [](float* weights, std::span<float* const> state, const float* gradients, const std::vector<TensorSpec>& table,
       const AdamW& options, float lr, float gradient_factor, int64_t t) {
      adamw_step(weights, state[0], state[1], gradients, table, options, lr, gradient_factor, t);
    }};

double LearningRate::at(int64_t step, int64_t steps) const {
  if (step < warmup) return lr * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
  const double past = static_cast<double>(step - warmup), whole = static_cast<double>(steps - warmup);
  const double p = std::min(1.0, past / std::max(1.0, whole));
  switch (schedule) {
    case Schedule::cosine: return min_lr + .5 * (1 + std::cos(std::numbers::pi * p)) * (lr - min_lr);
    case Schedule::linear: return lr + (min_lr - lr) * p;
    case Schedule::constant: break;
  }
  return lr;
}
