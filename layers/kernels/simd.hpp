#pragma once
// Vectors of float, written once for every processor: GCC's and Clang's vector extensions turn `a * b + c` on a Vec
// into the target's instructions (AVX-512, AVX2, SSE2, NEON). Only this file, amx.hpp and gemm ask for which processor
// they are built; the others only know W.

#include <cstdint>
#include <cstring>
#include <utility>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "numbers.hpp"

namespace simd {

#if defined(__AVX512F__)
constexpr int W = 16;  // floats in a register
#elif defined(__AVX2__)
constexpr int W = 8;
#else
constexpr int W = 4;
#endif

typedef float Vec __attribute__((vector_size(W * 4)));
typedef int32_t VecI __attribute__((vector_size(W * 4)));
typedef uint32_t VecU __attribute__((vector_size(W * 4)));

inline Vec all(float x) { return x - Vec{}; }

inline Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, Vec v) { std::memcpy(p, &v, sizeof v); }

// Load n ≤ W numbers as floats; the other lanes are 0.
typedef uint16_t Short __attribute__((vector_size(W * 2)));
inline Short load_bits(const void* p, int n) {
  Short bits = {};
  if (n == W) std::memcpy(&bits, p, sizeof bits);
  else std::memcpy(&bits, p, n * sizeof(uint16_t));
  return bits;
}
inline Vec load(const Bfloat16* p, int n) { return (Vec)(__builtin_convertvector(load_bits(p, n), VecU) << 16); }
inline Vec load(const Float16* p, int n) {
#if defined(__aarch64__)
  return vcvt_f32_f16(vreinterpret_f16_u16((uint16x4_t)load_bits(p, n)));
#elif defined(__AVX512F__)
  return _mm512_maskz_cvtph_ps(0xffff, (__m256i)load_bits(p, n));
#elif defined(__AVX2__) && defined(__F16C__)
  return _mm256_cvtph_ps((__m128i)load_bits(p, n));
#else
  Vec v = {};
  for (int i = 0; i < n; ++i) v[i] = widened(p[i]);
  return v;
#endif
}

#if defined(__AVX2__) && !defined(__AVX512F__)
inline VecI first_lanes(int n) { return VecI{0, 1, 2, 3, 4, 5, 6, 7} < n; }
#endif

// Loads the first n lanes; the others are `fill`. If the compiler knows n, this is a plain move.
inline Vec load(const float* p, int n, float fill = 0) {
  if (n == W) return load(p);
#if defined(__AVX512F__)
  return _mm512_mask_loadu_ps(all(fill), static_cast<__mmask16>((1u << n) - 1), p);
#else
#if defined(__AVX2__)
  if (!__builtin_constant_p(n)) {
    const VecI first = first_lanes(n);
    return first ? Vec(_mm256_maskload_ps(p, (__m256i)first)) : all(fill);
  }
#endif
  Vec v = all(fill);
#pragma GCC unroll 8  // with known lanes, v stays in a register
  for (int i = 0; i < W; ++i)
    if (i < n) v[i] = p[i];
  return v;
#endif
}
inline void store(float* p, Vec v, int n) {
  if (n == W) return store(p, v);
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v);
#else
#if defined(__AVX2__)
  if (!__builtin_constant_p(n)) return _mm256_maskstore_ps(p, (__m256i)first_lanes(n), v);
#endif
#pragma GCC unroll 8
  for (int i = 0; i < W; ++i)
    if (i < n) p[i] = v[i];
#endif
}

// Calls f(i, lanes) for i = 0, W, 2W, ... < n: whole vectors first, then the rest with lanes < W.
template <class F>
inline void sweep(int n, F f) {
  int i = 0;
  for (; i + W <= n; i += W) f(i, W);
  if (i < n) f(i, n - i);
}

// sum + a·b, rounded once if the processor can. Not left to the compiler, because GCC tuned for AMD's Zen splits a*b +
// sum in loops with a single sum, and then tiles of different shapes would round differently.
inline Vec multiply_add(Vec sum, Vec a, Vec b) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, sum);
#elif defined(__AVX2__) && defined(__FMA__)
  return _mm256_fmadd_ps(a, b, sum);
#elif defined(__aarch64__)
  return vfmaq_f32(sum, a, b);
#else
  return sum + a * b;
#endif
}

// If an argument is NaN, the result is the second.
#if defined(__AVX512F__)
inline Vec max(Vec a, Vec b) { return _mm512_maskz_max_ps(0xffff, a, b); }
inline Vec min(Vec a, Vec b) { return _mm512_maskz_min_ps(0xffff, a, b); }
#elif defined(__AVX2__)
inline Vec max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline Vec min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
#elif defined(__SSE2__)
inline Vec max(Vec a, Vec b) { return _mm_max_ps(a, b); }
inline Vec min(Vec a, Vec b) { return _mm_min_ps(a, b); }
#else
inline Vec max(Vec a, Vec b) { return a > b ? a : b; }
inline Vec min(Vec a, Vec b) { return a < b ? a : b; }
#endif

inline Vec abs(Vec v) { return (Vec)((VecI)v & 0x7fffffff); }

// Transposes n lines of W numbers (n a power of two) into W groups of n: as one array, v[i·W + j] moves to j·n + i.
// Each of log₂n perfect shuffles interleaves vector i with vector i + n/2.
template <int n, int... lane>
inline void turn(Vec (&v)[n], std::integer_sequence<int, lane...>) {
  for (int stage = 1; stage < n; stage *= 2) {
    Vec t[n];
    for (int i = 0; i < n / 2; ++i) {
      t[2 * i] = __builtin_shufflevector(v[i], v[i + n / 2], (lane / 2 + lane % 2 * W)...);
      t[2 * i + 1] = __builtin_shufflevector(v[i], v[i + n / 2], (W / 2 + lane / 2 + lane % 2 * W)...);
    }
    for (int i = 0; i < n; ++i) v[i] = t[i];
  }
}
template <int n>
inline void turn(Vec (&v)[n]) { turn(v, std::make_integer_sequence<int, W>()); }

// A word is the content of a 32-bit lane: one float, or two bf16 numbers, the first in the low half. The processor
// rounds to nearest even and treats subnormal numbers as zero.
#if defined(__AVX512BF16__)
constexpr bool kHasBf16 = true;

// Words from 2W neighbors: (a₀,a₁) (a₂,a₃) ... (b₀,b₁) ...
inline Vec bf16_neighbors(Vec a, Vec b) { return (Vec)_mm512_cvtne2ps_pbh(b, a); }

// Words from two vectors: (a₀,b₀) (a₁,b₁) ...
inline Vec bf16_pairs(Vec a, Vec b) {
  const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(b, a);
  const VecI lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const __m512i order = (__m512i)(lane | (lane + 16) << 16);
  return (Vec)_mm512_permutexvar_epi16(order, halves);
}

// sum + a₀·b₀ + a₁·b₁ in every lane
inline Vec bf16_dot(Vec sum, Vec a, Vec b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
#else
constexpr bool kHasBf16 = false;
#endif

// Correctly rounded, like the processor's instruction for one number.
inline Vec sqrt(Vec v) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xffff, v);
#elif defined(__aarch64__)
  return vsqrtq_f32(v);
#else
  for (int i = 0; i < W; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
#endif
}

// ---- across the lanes: fold halves onto each other ---------------------------------------------------

template <int distance, class V, int... lane>
inline V rotate(V v, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(v, v, ((lane + distance) % static_cast<int>(sizeof...(lane)))...);
}

// Returns f(v₀, v₁, ...) over the n lanes of v, for a commutative and associative f of two arguments.
template <int n, class V, class F>
inline auto fold(V v, F f) {
  if constexpr (n >= 16) v = f(v, rotate<8>(v, std::make_integer_sequence<int, n>()));
  if constexpr (n >= 8) v = f(v, rotate<4>(v, std::make_integer_sequence<int, n>()));
  if constexpr (n >= 4) v = f(v, rotate<2>(v, std::make_integer_sequence<int, n>()));
  return f(v, rotate<1>(v, std::make_integer_sequence<int, n>()))[0];
}

// Half as many lanes, each a double.
typedef double Half __attribute__((vector_size(W * 4)));
struct Halves {
  Half low, high;
};
template <int... lane>
inline Halves widen(Vec v, std::integer_sequence<int, lane...>) {
  return {__builtin_convertvector(__builtin_shufflevector(v, v, lane...), Half),
          __builtin_convertvector(__builtin_shufflevector(v, v, (lane + W / 2)...), Half)};
}
inline Halves widen(Vec v) {
#if defined(__aarch64__)  // g++ would convert lane by lane
  return {vcvt_f64_f32(vget_low_f32(v)), vcvt_high_f64_f32(v)};
#else
  return widen(v, std::make_integer_sequence<int, W / 2>());
#endif
}

inline double sum(Half v) {
  return fold<W / 2>(v, [](Half a, Half b) { return a + b; });
}
inline double sum(Vec v) {
  const Halves halves = widen(v);
  return sum(halves.low + halves.high);
}
// Σx² in double, because float would lose the last digits of a sum over millions.
struct Squares {
  Half low = {}, high = {};
  void add(Vec x) {
    const Halves v = widen(x);
    low += v.low * v.low;
    high += v.high * v.high;
  }
  double sum() const { return simd::sum(low + high); }
};
// Σ a·b. Each lane sums in float; the lanes are added in double.
inline double dot(const float* a, const float* b, int n) {
  Vec products = {};
  sweep(n, [&](int i, int lanes) { products += load(a + i, lanes) * load(b + i, lanes); });
  return sum(products);
}
inline float max(Vec v) {
  return fold<W>(v, [](Vec a, Vec b) { return max(a, b); });
}

// 0, 1, 2, ...
template <int... lane>
inline Vec counting(std::integer_sequence<int, lane...>) {
  return Vec{static_cast<float>(lane)...};
}
inline Vec counting() { return counting(std::make_integer_sequence<int, W>()); }

// ---- functions ---------------------------------------------------------------------------------------------

// eˣ = 2ⁿ·eʳ. With n = round(x / ln 2), |r| ≤ ln 2 / 2; ln 2 is subtracted in two parts so that r is exact (Cody &
// Waite 1980), and eʳ is its Taylor polynomial of degree 7. Relative error below 2e-7 (test_simd.cpp).
struct Power {
  Vec n, rest;  // rest: eʳ
  VecI biased;  // n + 0x4b400000, whose low bits are zero; converting NaN to an integer would be undefined
};
inline Power power_of_2(Vec x) {
  const Vec magic = all(12582912.f);  // 1.5·2²³ = 0x4b400000: adding it rounds to an integer
  const Vec shifted = x * 1.44269504088896341f + magic, n = shifted - magic;
  const Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vec p = all(1.f / 5040);
  p = p * r + 1.f / 720;
  p = p * r + 1.f / 120;
  p = p * r + 1.f / 24;
  p = p * r + 1.f / 6;
  p = p * r + .5f;
  p = p * r + 1.f;
  p = p * r + 1.f;
  return {n, p, (VecI)shifted};
}

// eˣ. NaN stays NaN; above 88.7 the result is +inf. 2ⁿ is written into the exponent bits in two halves, so that
// subnormal results are right, too. Below −104, as for keys that a query does not see, the result is 0, and no product
// may become subnormal on the way: that takes Intel's processors over 100 cycles.
inline Vec exp(Vec x) {
  const Power e = power_of_2(min(all(89.f), max(all(-104.f), x)));  // NaN passes
#if defined(__AVX512F__)
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, all(-104.f), _CMP_NLT_UQ), e.rest, e.n);  // rest·2ⁿ
#else
  const VecI n = e.biased - 0x4b400000, half = n >> 1, none = x < -104.f;
  const VecI low = (half + 127) << 23, high = (n - half + 127) << 23 & ~none;
  return e.rest * (Vec)low * (Vec)high;
#endif
}

// eˣ for −87.3 ≤ x ≤ 88 or NaN, with fewer instructions.
inline Vec exp_normal(Vec x) {
  const Power e = power_of_2(x);
  return (Vec)((VecI)e.rest + (e.biased << 23));  // n is added to the exponent
}

// 1 / (1 + e⁻ˣ)
inline Vec sigmoid(Vec x) { return 1.f / (1.f + exp(-x)); }

// tanh x = 1 − 2/(e²ˣ + 1) cancels near 0. Below |x| = 5/8 use x + x³·P(x²) with the polynomial of Moshier's Cephes.
// Relative error below 2e-7 (test_simd.cpp).
inline Vec tanh(Vec x) {
  const Vec size = abs(x), z = x * x;
  Vec p = all(-5.70498872745e-3f);
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const Vec far = 1.f - 2.f / (exp(2.f * size) + 1.f);
  const Vec signed_far = x < 0.f ? -far : far;
  return size < .625f ? x + x * (z * p) : signed_far;
}

// erfc(x)·e^(x²) for x ≥ 0: t·Q(t) with t = 1/(1 + x/2) and Q a polynomial of degree 8 fitted to relative error 5e-8
// (the form of Press et al., Numerical Recipes, §6.2).
inline Vec scaled_erfc(Vec x) {
  const Vec t = 1.f / (1.f + .5f * x);
  Vec q = all(-.059277408f);
  q = q * t + .28559297f;
  q = q * t - .48930982f;
  q = q * t + .2804831f;
  q = q * t - .028291203f;
  q = q * t + .2033919401f;
  q = q * t + .24292554f;
  q = q * t + .2823998f;
  q = q * t + .28208503f;
  return q * t;
}

// erfc(x), computed as 2 − erfc(−x) below 0. Relative error, rounding included, below 5e-7 for x < 1, and below 2e-7·(1
// + x²) above 1, where the result is small (test_simd.cpp).
inline Vec erfc(Vec x) {
  const Vec r = exp(-x * x) * scaled_erfc(abs(x));
  return x < 0.f ? 2.f - r : r;
}

// erf x = 1 − erfc x cancels near 0. Below |x| = 1 use x·P(x²) (the polynomial of Moshier's Cephes, erff). Relative
// error below 4e-7 (test_simd.cpp).
inline Vec erf(Vec x) {
  const Vec s = x * x;
  Vec p = all(7.853861353153693e-5f);
  p = p * s - 8.010193625184903e-4f;
  p = p * s + 5.188327685732524e-3f;
  p = p * s - 2.685381193529856e-2f;
  p = p * s + 1.128358514861418e-1f;
  p = p * s - 3.761262582423300e-1f;
  p = p * s + 1.128379165726710f;
  const Vec far = x < 0.f ? erfc(-x) - 1.f : 1.f - erfc(x);
  return s < 1.f ? x * p : far;
}

}  // namespace simd
