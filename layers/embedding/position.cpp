#include "position.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <numbers>
#include <stdexcept>
#include <vector>

#include "embedding.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/reductions.hpp"

std::vector<int> Positions::example_lengths() const {
  std::vector<int> lengths(static_cast<size_t>(B) * T, first + T);
  if (!begins) return lengths;
  for (int n = B * T - 1; n >= 0; --n) {
    const bool last = n % T == T - 1 || begins[n] != begins[n + 1];
    lengths[n] = last ? of(n) + 1 : lengths[n + 1];
  }
  return lengths;
}

void position_forward(float* x, const float* weight, const Positions& positions, int C) {
  parallel_each(positions.B * positions.T, C, [&](size_t n) {
    float* row = x + n * C;
    const float* position = weight + static_cast<size_t>(positions.of(n)) * C;
    for (int c = 0; c < C; ++c) row[c] += position[c];
  });
}

// If every row is one example, views the batch as B rows of T·C columns, and adds each column's sum to dweight.
void learned_position_backward(float* dweight, const float* dx, const Positions& positions, int C) {
  const auto [B, T, first, begins] = positions;
  if (!begins) return add_column_sums(dweight, dx, B, T * C);
  std::vector<int> at(static_cast<size_t>(B) * T);
  for (int n = 0; n < B * T; ++n) at[n] = positions.of(n);
  embedding_backward(dweight, at.data(), dx, B * T, C);
}

Buffer sinusoids(int context, int C) {
  Buffer weight = allocate(checked_product({static_cast<size_t>(context), static_cast<size_t>(C)}));
  for (int t = 0; t < context; ++t)
    for (int c = 0; c < C; ++c) {
      const double angle = t * std::pow(10000., -static_cast<double>(c - c % 2) / C);
      weight[static_cast<size_t>(t) * C + c] = static_cast<float>(c % 2 ? std::cos(angle) : std::sin(angle));
    }
  return weight;
}

RopeAngles::RopeAngles(const Config& config, bool longer) : theta(config.rope_theta) {
  if (config.rope_scaling == RopeScaling::none) return;
  scaling = config.rope_scaling;
  factor = config.rope_factor;
  original = config.rope_original;
  slow = config.rope_slow;
  fast = config.rope_fast;
  magnitude = *config.rope_magnitude;
  truncate = config.rope_truncate;
  if (scaling == RopeScaling::longrope) factors = rope_factors(longer ? config.rope_long : config.rope_short);
}

// Not by std::from_chars, which LLVM's library lacks for doubles.
std::vector<double> rope_factors(const std::string& list) {
  std::vector<double> factors;
  const bool known = list.find_first_not_of("0123456789.eE+-,") == list.npos;  // neither "nan" nor "0x1"
  for (const char* at = list.c_str();;) {
    char* end = nullptr;
    const double factor = std::strtod(at, &end);
    if (!known || end == at || !(factor > 0 && std::isfinite(factor)) || (*end && *end != ','))
      throw std::invalid_argument("'" + list + "' is no list of positive numbers such as 1,1.05,2");
    factors.push_back(factor);
    if (!*end) return factors;
    at = end + 1;
  }
}

namespace {

// The number of the pair that makes this many turns in the original context; most often no whole number.
double pair_with(double turns, int R, const RopeAngles& a) {
  return R * std::log(a.original / (turns * 2 * std::numbers::pi)) / (2 * std::log(a.theta));
}

// How much of a pair's frequency f is stretched, from 0 to 1.
double stretched_share(int i, double f, int R, const RopeAngles& a) {
  if (a.scaling == RopeScaling::linear) return 1;
  if (a.scaling == RopeScaling::llama3) {
    const double turns = a.original * f / (2 * std::numbers::pi);
    return 1 - std::clamp((turns - a.slow) / (a.fast - a.slow), 0., 1.);
  }
  if (a.scaling != RopeScaling::yarn) return 0;
  const double fast = pair_with(a.fast, R, a), slow = pair_with(a.slow, R, a);
  const double first = std::max(a.truncate ? std::floor(fast) : fast, 0.);
  const double last = std::min(a.truncate ? std::ceil(slow) : slow, R - 1.);
  return std::clamp((i - first) / (first == last ? .001 : last - first), 0., 1.);  // .001 as in the authors' program
}

}  // namespace

std::vector<double> rope_frequencies(int R, const RopeAngles& angles) {
  std::vector<double> frequencies;
  for (int i = 0; i < R / 2; ++i) {
    const double f = std::pow(angles.theta, -2.0 * i / R), share = stretched_share(i, f, R, angles);
    if (angles.scaling == RopeScaling::longrope) frequencies.push_back(f / angles.factors.at(i));
    else frequencies.push_back(share * f / angles.factor + (1 - share) * f);
  }
  return frequencies;
}

RopeTable::RopeTable(int context, int R, const RopeAngles& angles) : half(R / 2) {
  const size_t size = checked_product({static_cast<size_t>(context), static_cast<size_t>(half)});
  cosine = allocate(size);
  sine = allocate(size);
  const std::vector<double> frequencies = rope_frequencies(R, angles);
  for (int t = 0; t < context; ++t)
    for (int i = 0; i < half; ++i) {
      const double angle = t * frequencies[i];
      cosine[static_cast<size_t>(t) * half + i] = static_cast<float>(angles.magnitude * std::cos(angle));
      sine[static_cast<size_t>(t) * half + i] = static_cast<float>(angles.magnitude * std::sin(angle));
    }
}

RopeTables::RopeTables(const Config& config) {
  if (config.position != Position::rope) return;
  all = RopeTable(config.context, config.rope_dims(), RopeAngles(config));
  if (config.window_rope_theta) local = RopeTable(config.context, config.rope_dims(), *config.window_rope_theta);
  if (config.rope_scaling != RopeScaling::longrope || config.context <= config.rope_original) return;
  all.longer = std::make_unique<RopeTable>(config.context, config.rope_dims(), RopeAngles(config, true));
  all.original = config.rope_original;
}

const RopeTable* RopeTables::of(const Config& config, int layer) const {
  if (!config.rotates(layer)) return nullptr;
  return config.rotates_locally(layer) ? &local : &all;
}

namespace {

// Rotates each pair by its angle times `direction`: +1 forward, −1 backward.
void rotate(float* x, float direction, const RopeTable& table, const Positions& positions, int heads, int D,
            size_t stride) {
  const int half = table.half;
  const std::vector<int> lengths = table.longer ? positions.example_lengths() : std::vector<int>();
  parallel_each(positions.B * positions.T, 3 * static_cast<size_t>(heads) * D, [&](size_t n) {
    const RopeTable& angles = table.longer && lengths[n] > table.original ? *table.longer : table;
    const size_t at = static_cast<size_t>(positions.of(n)) * half;
    const float *cosine = angles.cosine.get() + at, *sine = angles.sine.get() + at;
    for (int h = 0; h < heads; ++h) {
      float* a = x + n * stride + static_cast<size_t>(h) * D;
      float* b = a + half;
      for (int i = 0; i < half; ++i) {
        const float a0 = a[i], b0 = b[i], s = direction * sine[i];
        a[i] = a0 * cosine[i] - b0 * s;
        b[i] = a0 * s + b0 * cosine[i];
      }
    }
  });
}

}  // namespace

void rope_forward(float* x, const RopeTable& table, const Positions& positions, int heads, int D, size_t stride) {
  rotate(x, 1, table, positions, heads, D, stride);
}

void rope_backward(float* dx, const RopeTable& table, const Positions& positions, int heads, int D, size_t stride) {
  rotate(dx, -1, table, positions, heads, D, stride);
}

Buffer alibi_slopes(int n_head) {
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(n_head)));
  Buffer slopes = allocate(n_head);
  for (int h = 0; h < n_head; ++h) {
    const double exponent = h < power ? -8. * (h + 1) / power : -4. * (2 * (h - power) + 1) / power;
    slopes[h] = static_cast<float>(std::exp2(exponent));
  }
  return slopes;
}

namespace {

constexpr int kWholeTile = 64;  // attention's tiles end after at most as many queries

// The buckets of one direction.
int one_sided_buckets(const Config& config) {
  return config.causal() ? config.relative_buckets : config.relative_buckets / 2;
}

// The bucket of d = i − j (Raffel et al. 2020, arXiv 1910.10683, §2.1; the formula is that of the authors' program).
int bucket_of(int d, const Config& config) {
  const int count = one_sided_buckets(config), exact = exact_buckets(config);
  const int first = d < 0 && !config.causal() ? count : 0;
  const int apart = config.causal() ? std::max(d, 0) : std::abs(d);
  if (apart < exact) return first + apart;
  const double share = std::log(double(apart) / exact) / std::log(double(config.relative_distance) / exact);
  return first + std::min(count - 1, exact + static_cast<int>(share * (count - exact)));
}

}  // namespace

int exact_buckets(const Config& config) { return one_sided_buckets(config) / 2; }

size_t RelativeBuckets::size(const Config& config) {
  return config.position == Position::relative ? 2 * static_cast<size_t>(config.context) + kWholeTile : 0;
}

RelativeBuckets::RelativeBuckets(const Config& config) : bucket_(size(config)) {
  zero_ = config.context;
  count_ = config.relative_buckets;
  for (size_t i = 0; i < bucket_.size(); ++i) bucket_[i] = bucket_of(static_cast<int>(i) - zero_, config);
}

RelativeBias RelativeBuckets::bias(const float* biases) const {
  if (bucket_.empty()) return {};
  return {biases + zero_, bucket_.data() + zero_, bucket_.size(), count_};
}

void RelativeBuckets::fill(float* biases, const float* table, int H, int past, int T) const {
  const int first = zero_ - T, last = std::min(static_cast<int>(bucket_.size()), zero_ + past + T + kWholeTile);
  parallel_each(H, last - first, [&](size_t h) {
    float* row = biases + h * bucket_.size();
    for (int i = first; i < last; ++i) row[i] = table[static_cast<size_t>(bucket_[i]) * H + h];
  });
}
