#include "dropout.hpp"

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"
#include "layers/kernels/simd.hpp"

using simd::VecI;
using simd::VecU;

uint64_t Dropout::key(int b, int layer, DropoutSite site, uint64_t index) const {
  return rng::key({seed, rng::word("dropout"), step, static_cast<uint64_t>(first_row + b),
                   static_cast<uint64_t>(layer), static_cast<uint64_t>(site), index});
}

uint64_t Dropout::attention_key(int b, int layer, int h, int query, DropoutSite site) const {
  return key(b, layer, site, static_cast<uint64_t>(h) << 32 | static_cast<uint32_t>(query));
}

namespace {

VecU counters(int begin) {
  VecU v;
  for (int i = 0; i < simd::W; ++i) v[i] = static_cast<uint32_t>(begin + i);
  return v;
}

// Returns 32 random bits per lane: sends the element's number and the line's key through MurmurHash3's 32-bit finalizer
// (Appleby 2011), and mixes in the key's high half on the way. It vectorizes.
VecU hash(VecU counter, uint64_t key) {
  VecU h = counter * 0x9e3779b9u + static_cast<uint32_t>(key);
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h ^= static_cast<uint32_t>(key >> 32);
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}

}  // namespace

void dropout_line(float* x, uint64_t key, float p, int begin, int n) {
  const uint32_t threshold = static_cast<uint32_t>(static_cast<double>(p) * 0x1p24);
  const float scale = 1 / (1 - p);
  simd::sweep(n, [&](int i, int lanes) {
    const VecU random = hash(counters(begin + i), key) >> 8;  // 24 bits
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
