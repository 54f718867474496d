#pragma once
// Counter-based random numbers (random.hpp), one for each lane of a vector, and rounding with them.

#include <cstdint>
#include <cstring>
#include <utility>

#include "numbers.hpp"
#include "simd.hpp"

namespace rng {

// Returns 32 random bits per lane for the counters begin, begin + 1, ...: sends the counter and the key through
// MurmurHash3's 32-bit finalizer (Appleby 2011), and mixes in the key's high half on the way. It vectorizes.
inline simd::VecU lanes(int begin, uint64_t key) {
  constexpr uint32_t kStep = 0x9e3779b9u;
  constexpr auto multiples = []<size_t... lane>(std::index_sequence<lane...>) {
    return simd::VecU{static_cast<uint32_t>(lane) * kStep...};
  };
  // (begin + lane)·kStep + key: products of a constant, and of one number
  simd::VecU h = multiples(std::make_index_sequence<simd::W>()) +
                 (static_cast<uint32_t>(begin) * kStep + static_cast<uint32_t>(key));
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h ^= static_cast<uint32_t>(key >> 32);
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}

}  // namespace rng

namespace simd {

// Writes the first n lanes of v, which are finite, as bf16. Each becomes one of its two neighbors in bf16, so that the
// mean over all `random` is v: stochastic rounding (Gupta et al. 2015, arXiv 1502.02551). Takes the low 16 bits of each
// lane of `random`.
inline void store_rounded_at_random(Bfloat16* p, Vec v, VecU random, int n) {
  typedef uint16_t Halves __attribute__((vector_size(sizeof(uint16_t) * W)));
  const Halves halves = __builtin_convertvector(((VecU)v + (random & 0xffffu)) >> 16, Halves);
  std::memcpy(p, &halves, sizeof(uint16_t) * n);
}

}  // namespace simd
