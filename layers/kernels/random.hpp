#pragma once
// Counter-based random numbers. Every number is a pure function of a key and a counter, so any thread, any micro-batch
// and any resumed run computes the same number, and nothing is stored or replayed.
//
// The mixing function is Stafford's variant 13 of MurmurHash3's 64-bit finalizer, as in SplitMix64 (Steele, Lea & Flood
// 2014, "Fast splittable pseudorandom number generators"). bits(key, 0), bits(key, 1), ... is the output of SplitMix64
// started from `key` (test_random.cpp).

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <numbers>
#include <string_view>

namespace rng {

inline uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// Folds any number of words (a seed, a step, a row, ...) into one key.
inline uint64_t key(std::initializer_list<uint64_t> words) {
  uint64_t k = 0;
  for (uint64_t word : words) k = mix(k + 0x9e3779b97f4a7c15ull + mix(word + 0x9e3779b97f4a7c15ull));
  return k;
}

// Hashes a name (FNV-1a) into a word for key(). word_byte() adds one byte.
inline uint64_t word_byte(uint64_t hash, unsigned char byte) { return (hash ^ byte) * 0x100000001b3ull; }
inline uint64_t word(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (unsigned char c : name) h = word_byte(h, c);
  return h;
}

inline uint64_t bits(uint64_t key, uint64_t counter) { return mix(key + 0x9e3779b97f4a7c15ull * (counter + 1)); }

// Uniform in [0, 1), 53 bits.
inline double uniform(uint64_t key, uint64_t counter) { return (bits(key, counter) >> 11) * 0x1p-53; }

// Uniform in {0, ..., n-1}, except for a bias below n/2⁶⁴: the high word of a 64 × 64 bit product (Lemire 2019, arXiv
// 1805.10941, without its rejection step).
inline uint64_t below(uint64_t n, uint64_t key, uint64_t counter) {
  __extension__ using wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<wide>(bits(key, counter)) * n) >> 64);
}

// Standard normal (Box & Muller 1958), from two uniforms.
inline double normal(uint64_t key, uint64_t counter) {
  const double radius = std::sqrt(-2 * std::log(1 - uniform(key, 2 * counter)));
  return radius * std::cos(2 * std::numbers::pi * uniform(key, 2 * counter + 1));
}

}  // namespace rng
