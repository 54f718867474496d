#include "initialize.hpp"

#include <algorithm>

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"
#include "normed_weights.hpp"
#include "profile.hpp"

void initialize(Model& model, uint64_t seed, const std::vector<TensorSpec>& tensors) {
  for (const TensorSpec& spec : tensors) {
    const uint64_t key = rng::key({seed, rng::word(spec.name)});
    const Start start = spec.start;
    const auto value = [=](size_t i) {
      if (start.is_one(i)) return 1.f;
      if (start.is_zero(i)) return 0.f;
      return start.deviation == 0 ? start.mean
                                  : start.mean + start.deviation * static_cast<float>(rng::normal(key, i));
    };
    const size_t size = spec.size();
    constexpr size_t kChunk = 1 << 10, kCost = 100;  // a normal number costs a logarithm, a root and a cosine
    as_numbers(model.weights.get() + spec.offset, spec.numbers, [&]<class Number>(Number* numbers) {
      parallel_for(static_cast<int>((size + kChunk - 1) / kChunk), 1, kCost * kChunk, [&](int begin, int end) {
        for (size_t i = begin * kChunk; i < std::min(size, end * kChunk); ++i) numbers[i] = rounded<Number>(value(i));
      });
    });
  }
}

void initialize(Model& model, uint64_t seed) {
  initialize(model, seed, model.table);
  normalize_weights(model.weights.get(), model.table, model.config);
  profile_skip_gains(model, seed);
}
