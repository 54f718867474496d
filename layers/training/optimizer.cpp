#include "optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>

#include "decay.hpp"
#include "layers/config/norm_sites.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"
#include "layers/kernels/random_lanes.hpp"
#include "layers/kernels/simd.hpp"

using simd::load;
using simd::store;
using simd::sweep;
using simd::Vec;

namespace {

// Rounds up to the distance in floats between two slots of a tensor.
size_t padded(size_t floats) { return round_up(floats, kAlignment / sizeof(float)); }

std::vector<int> shape_of(const Slot& slot, const TensorSpec& spec) {
  return slot.per == Per::weight ? spec.shape : std::vector{spec.shape[slot.per == Per::row ? 0 : 1]};
}

// A strip of a tensor. It is small enough to share work evenly, and large enough that scheduling it costs nothing.
struct Strip {
  size_t weights, gradients, state, slot, size;  // offsets; distance between slots in floats; number of elements
  const TensorSpec* tensor;
};

// What the state of a tensor consists of, if it has a number for each weight.
NumberType state_numbers(const TensorSpec& spec) {
  return spec.optimizer ? spec.optimizer->slots[0].numbers : NumberType::fp32;
}

std::vector<Strip> strips_of(const std::vector<TensorSpec>& table) {
  std::vector<Strip> strips;
  for (const TensorSpec& spec : table) {
    if (!spec.trained) continue;
    const NumberType numbers = state_numbers(spec);
    const size_t size = spec.size();
    for (size_t i = 0; i < size; i += kStrip)
      strips.push_back({spec.offset + i, spec.gradient + i, spec.state + floats_of(numbers, i),
                        padded(floats_of(numbers, size)), std::min(size - i, kStrip), &spec});
  }
  return strips;
}

}  // namespace

float decay_of(const TensorSpec& spec, const OptimizerOptions& options) {
  if (spec.decay) return options.weight_decay * spec.decay_factor;
  if (spec.role != Role::norm_gain) return 0;
  return (is_output_norm(spec.group()) ? options.output_norm_decay : options.norm_decay) * spec.decay_factor;
}

std::vector<double> gradient_squares(const float* gradients, const std::vector<TensorSpec>& table) {
  const std::vector<Strip> strips = strips_of(table);
  std::vector<double> squares(strips.size());
  parallel_each(static_cast<int>(strips.size()), kStrip, [&](size_t i) {
    simd::Squares of_strip;
    const float* g = gradients + strips[i].gradients;
    sweep(static_cast<int>(strips[i].size), [&](int j, int lanes) { of_strip.add(load(g + j, lanes)); });
    squares[i] = of_strip.sum();
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

// ---- state -------------------------------------------------------------------------------------------------

void assign_optimizers(std::vector<TensorSpec>& table, Optimizers rows) {
  for (TensorSpec& spec : table) {
    const auto row = std::ranges::find_if(rows, [&](const Optimizer* r) { return spec.trained && r->takes(spec); });
    spec.optimizer = row == rows.end() ? nullptr : *row;
  }
  place_state(table);
}

void set_factors(std::vector<TensorSpec>& table, const Config& config, MuonScale scale) {
  for (TensorSpec& spec : table) {
    if (!spec.optimizer) continue;
    StepRule rule = spec.optimizer->rule;
    if (rule == StepRule::orthogonal && scale == MuonScale::rms) rule = StepRule::orthogonal_by_rms;
    const TensorFactors factors = tensor_factors(spec, config, rule);
    spec.rate = static_cast<float>(factors.rate);
    spec.decay_factor = static_cast<float>(factors.decay);
    spec.epsilon_factor = static_cast<float>(factors.epsilon);
  }
}

size_t place_state(std::vector<TensorSpec>& table, size_t begin) {
  for (TensorSpec& spec : table) {
    if (!spec.optimizer) continue;
    spec.state = begin;
    for (const TensorSpec& slot : state_table(spec)) begin += padded(floats_of(slot.numbers, slot.size()));
  }
  return begin;
}

std::vector<TensorSpec> state_table(const TensorSpec& spec) {
  std::vector<TensorSpec> table;
  if (!spec.optimizer) return table;
  size_t at = spec.state;
  for (const Slot& slot : spec.optimizer->slots) {
    TensorSpec& state = table.emplace_back(spec);
    state.name = std::string(slot.name) + "." + spec.name;
    state.shape = shape_of(slot, spec);
    state.numbers = slot.numbers;
    state.offset = at;
    at += padded(floats_of(state.numbers, state.size()));
  }
  return table;
}

std::vector<TensorSpec> state_table(const std::vector<TensorSpec>& table) {
  std::vector<TensorSpec> all;
  for (const TensorSpec& spec : table) std::ranges::move(state_table(spec), std::back_inserter(all));
  return all;
}

size_t state_floats(const std::vector<TensorSpec>& table) {
  std::vector<TensorSpec> placed = table;
  return place_state(placed);
}

std::vector<TensorSpec> tensors_of(const std::vector<TensorSpec>& table, const Optimizer& row) {
  std::vector<TensorSpec> taken;
  std::ranges::copy_if(table, std::back_inserter(taken), [&](const auto& spec) { return spec.optimizer == &row; });
  return taken;
}

std::vector<const Optimizer*> optimizers_of(const std::vector<TensorSpec>& table) {
  std::vector<const Optimizer*> rows;
  for (const TensorSpec& spec : table)
    if (spec.optimizer && std::ranges::find(rows, spec.optimizer) == rows.end()) rows.push_back(spec.optimizer);
  return rows;
}

size_t scratch_floats(const std::vector<TensorSpec>& table) {
  size_t most = 0;
  for (const Optimizer* row : optimizers_of(table))
    if (row->scratch) most = std::max(most, row->scratch(tensors_of(table, *row)));
  return most;
}

// ---- rows --------------------------------------------------------------------------------------------------

namespace {

bool takes_all(const TensorSpec&) { return true; }

// Calls f(strip) for all strips of a table.
template <class F>
void for_each_strip(const std::vector<TensorSpec>& table, F f) {
  const std::vector<Strip> strips = strips_of(table);
  parallel_each(static_cast<int>(strips.size()), kStrip, [&](size_t q) { f(strips[q]); });
}

void store_moments(float* m, float* v, Vec mean, Vec square, const auto&, int lanes) {
  store(m, mean, lanes);
  store(v, square, lanes);
}

// `random()` returns 32 bits per lane: 16 for each moment.
void store_moments(Bfloat16* m, Bfloat16* v, Vec mean, Vec square, const auto& random, int lanes) {
  const simd::VecU bits = random();
  simd::store_rounded_at_random(m, mean, bits, lanes);
  simd::store_rounded_at_random(v, square, bits >> 16, lanes);
}

template <class Number>
void adamw(const UpdateBuffers& buffers, const std::vector<TensorSpec>& table, const OptimizerOptions& options,
           const UpdateStep& now) {
  const float beta1 = static_cast<float>(options.beta1), beta2 = static_cast<float>(options.beta2);
  // lr · (m / c₁) / (√(v / c₂) + eps) = (lr / c₁) m / (√v / √c₂ + eps)
  const float step = static_cast<float>(now.lr / (1 - std::pow(static_cast<double>(beta1), now.t)));
  const float root = static_cast<float>(1 / std::sqrt(1 - std::pow(static_cast<double>(beta2), now.t)));
  for_each_strip(table, [&](const Strip& strip) {
    const TensorSpec& tensor = *strip.tensor;
    const float keep = 1 - now.lr * tensor.rate * decay_of(tensor, options), eps = epsilon_of(tensor, options);
    const float rate = step * tensor.rate, factor = now.gradient_factor;
    const float* gradients = buffers.gradients + strip.gradients;
    float *w = buffers.weights + strip.weights, *state = buffers.state + strip.state;
    Number *m = reinterpret_cast<Number*>(state), *v = reinterpret_cast<Number*>(state + strip.slot);
    // A strip has the same place in the model's weights on every rank.
    const uint64_t key = rng::key({rng::word("moments"), static_cast<uint64_t>(now.t), strip.weights});
    with_decay(options.cautious_decay, [&](auto cautious) {
      sweep(static_cast<int>(strip.size), [&](int i, int lanes) {
        const Vec g = load(gradients + i, lanes) * factor;
        Vec mean = load(m + i, lanes), square = load(v + i, lanes);
        mean += (1 - beta1) * (g - mean);
        square += (1 - beta2) * (g * g - square);
        store_moments(m + i, v + i, mean, square, [&] { return rng::lanes(i, key); }, lanes);
        const Vec change = rate * mean / (simd::sqrt(square) * root + eps);
        store(w + i, moved<cautious>(load(w + i, lanes), change, keep), lanes);
      });
    });
  });
}

void sgd(const UpdateBuffers& buffers, const std::vector<TensorSpec>& table, const OptimizerOptions& options,
         const UpdateStep& now) {
  for_each_strip(table, [&](const Strip& strip) {
    const float decay = decay_of(*strip.tensor, options), lr = now.lr * strip.tensor->rate;
    const float factor = now.gradient_factor, momentum = static_cast<float>(options.momentum);
    const float* gradients = buffers.gradients + strip.gradients;
    float *w = buffers.weights + strip.weights, *b = buffers.state + strip.state;
    sweep(static_cast<int>(strip.size), [&](int i, int lanes) {
      const Vec weights = load(w + i, lanes), g = load(gradients + i, lanes) * factor + decay * weights;
      const Vec buffer = momentum * load(b + i, lanes) + g;
      store(b + i, buffer, lanes);
      store(w + i, weights - lr * (options.nesterov ? g + momentum * buffer : buffer), lanes);
    });
  });
}

void lion(const UpdateBuffers& buffers, const std::vector<TensorSpec>& table, const OptimizerOptions& options,
          const UpdateStep& now) {
  const float beta1 = static_cast<float>(options.beta1), to_newest = static_cast<float>(1 - options.beta2);
  for_each_strip(table, [&](const Strip& strip) {
    const float lr = now.lr * strip.tensor->rate, keep = 1 - lr * decay_of(*strip.tensor, options);
    const float factor = now.gradient_factor;
    const float* gradients = buffers.gradients + strip.gradients;
    float *w = buffers.weights + strip.weights, *m = buffers.state + strip.state;
    with_decay(options.cautious_decay, [&](auto cautious) {
      sweep(static_cast<int>(strip.size), [&](int i, int lanes) {
        const Vec g = load(gradients + i, lanes) * factor, mean = load(m + i, lanes);
        const Vec u = mean + (1 - beta1) * (g - mean), zero = {};
        const Vec down = u < 0.f ? zero - lr : zero, change = u > 0.f ? zero + lr : down;
        store(m + i, mean + to_newest * (g - mean), lanes);
        store(w + i, moved<cautious>(load(w + i, lanes), change, keep), lanes);
      });
    });
  });
}

template <int operations>
double flops_per_weight(const TensorSpec& spec) {
  return operations * static_cast<double>(spec.size());
}

constexpr Slot kMoments[] = {{"exp_avg"}, {"exp_avg_sq"}};  // m and v
constexpr Slot kMomentsBf16[] = {{"exp_avg", Per::weight, NumberType::bf16},
                                 {"exp_avg_sq", Per::weight, NumberType::bf16}};
constexpr Slot kBuffer[] = {{"momentum_buffer"}}, kMean[] = {{"exp_avg"}};

}  // namespace

const Optimizer kAdamW = {.name = "AdamW", .slots = kMoments, .takes = takes_all, .update = adamw<float>,
                          .flops = flops_per_weight<15>, .bytes = 28, .betas = true, .epsilon = true};
const Optimizer kAdamWBf16 = {.name = "AdamW in bf16", .slots = kMomentsBf16, .takes = takes_all,
                              .update = adamw<Bfloat16>, .flops = flops_per_weight<15>, .bytes = 20, .betas = true,
                              .epsilon = true};
const Optimizer kSgd = {.name = "SGD", .slots = kBuffer, .takes = takes_all, .update = sgd,
                        .flops = flops_per_weight<7>, .bytes = 20, .momentum = true, .decays_gradient = true,
                        .rule = StepRule::gradient};
const Optimizer kLion = {.name = "Lion", .slots = kMean, .takes = takes_all, .update = lion,
                         .flops = flops_per_weight<10>, .bytes = 20, .betas = true};

// ---- learning rate -----------------------------------------------------------------------------------------

int64_t LearningRate::warmup_steps(int64_t steps) const {
  return warmup_percent > 0 ? std::llround(warmup_percent / 100 * static_cast<double>(steps)) : warmup;
}

double LearningRate::at(int64_t step, int64_t steps) const {
  if (has_end(schedule)) step = std::min(step, steps);  // the last rate stays, also if the warm-up was not over
  const int64_t rising = warmup_steps(steps);
  if (step < rising) return lr * static_cast<double>(step + 1) / static_cast<double>(rising + 1);
  const double past = static_cast<double>(step - rising), whole = static_cast<double>(steps - rising);
  const double p = std::min(1.0, past / std::max(1.0, whole));
  switch (schedule) {
    case Schedule::cosine: return min_lr + .5 * (1 + std::cos(std::numbers::pi * p)) * (lr - min_lr);
    case Schedule::linear: return lr + (min_lr - lr) * p;
    case Schedule::constant: break;
    case Schedule::inverse_sqrt: return lr * std::sqrt(static_cast<double>(rising + 1) / static_cast<double>(step + 1));
    case Schedule::wsd: {
      const double length = decay > 0 ? static_cast<double>(decay) : static_cast<double>(steps) / 10;
      const double begin = std::max(0., whole - length);
      return lr + (min_lr - lr) * std::clamp((past - begin) / std::max(1., whole - begin), 0., 1.);
    }
  }
  return lr;
}
