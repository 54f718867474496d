#include "dropout.hpp"

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"
#include "layers/kernels/random_lanes.hpp"
#include "layers/kernels/simd.hpp"

using simd::VecU;

uint64_t Dropout::key(int b, int layer, DropoutSite site, uint64_t index) const {
  return rng::key({seed, rng::word("dropout"), step, static_cast<uint64_t>(first_row + b),
                   static_cast<uint64_t>(layer), static_cast<uint64_t>(site), index});
}

uint64_t Dropout::attention_key(int b, int layer, int h, int query, DropoutSite site) const {
  return key(b, layer, site, static_cast<uint64_t>(h) << 32 | static_cast<uint32_t>(query));
}

void dropout_line(float* x, uint64_t key, float p, int begin, int n) {
  const uint32_t threshold = static_cast<uint32_t>(static_cast<double>(p) * 0x1p24);
  const float scale = 1 / (1 - p);
  simd::sweep(n, [&](int i, int lanes) {
    const VecU random = rng::lanes(begin + i, key) >> 8;  // 24 bits
    const simd::Vec v = simd::load(x + i, lanes);
    simd::store(x + i, v * (random < threshold ? simd::all(0) : simd::all(scale)), lanes);
  });
}

void dropout_apply(float* x, const Dropout& dropout, int layer, DropoutSite site, int B, int T, int C) {
  if (dropout.p == 0) return;
  parallel_each(B * T, 4 * static_cast<size_t>(C), [&](size_t n) {
    dropout_line(x + n * C, dropout.key(n / T, layer, site, n % T), dropout.p, 0, C);
  });
}
