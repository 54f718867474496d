#include "peak.hpp"

#include <time.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "layers/kernels/amx.hpp"
#include "layers/kernels/buffer.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"
#include "progress.hpp"

namespace {

using simd::Vec;
using simd::W;

// Enough independent sums to keep all units busy, and few enough to fit into the registers. x86 has two units of
// latency four, and a multiply-add may be a multiplication and an addition. ARM (Apple's M series, Neoverse V) has four
// units of latency four.
#if defined(__aarch64__)
constexpr int kSums = 24;
#else
constexpr int kSums = 12;
#endif

// With b + sum · a the compiler cannot compute a product in advance. ARM's instruction adds to its destination, and
// would need a copy of b every time.
inline Vec next_sum(Vec sum, Vec a, Vec b) {
#if defined(__aarch64__)
  return simd::multiply_add(sum, a, b);
#else
  return sum * a + b;
#endif
}

// Keeps the compiler from precomputing a value or removing it.
void hide(Vec& v) {
#if defined(__aarch64__)
  asm volatile("" : "+w"(v));
#elif defined(__AVX512F__)
  asm volatile("" : "+v"(v));
#else
  asm volatile("" : "+x"(v));
#endif
}

template <class MultiplyAdd>
void run(int times, MultiplyAdd multiply_add) {
  Vec sum[kSums] = {}, a = simd::all(.5f), b = simd::all(1e-3f);
  hide(a);
  hide(b);
#pragma GCC unroll 24
  for (int j = 0; j < kSums; ++j) hide(sum[j]);
  for (int i = 0; i < times; ++i)
#pragma GCC unroll 24
    for (int j = 0; j < kSums; ++j) sum[j] = multiply_add(sum[j], a, b);
#pragma GCC unroll 24
  for (int j = 0; j < kSums; ++j) hide(sum[j]);
}

// The processor time of this thread, in seconds. It excludes the time in which other programs run on the processor.
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Calls f(thread) on every thread. Returns the longest processor time that a thread used.
template <class F>
double on_all_threads(F f) {
  std::vector<double> used(static_cast<size_t>(max_threads()));
  parallel_equal_tasks(max_threads(), [&](int thread) {
    const double start = processor_seconds();
    f(thread);
    used[thread] = processor_seconds() - start;
  });
  return *std::ranges::max_element(used);
}

// Returns the shortest time of many runs of f, in seconds. f returns what on_all_threads() does. A run is undisturbed
// if it takes hardly longer than the processor time of its slowest thread, because no thread waited for a processor
// then. Repeats f for at least 0.1 s, because other machines may share the cores, and then until five runs were
// undisturbed or 0.5 s are over. If none was, returns the shortest processor time.
template <class F>
double best_of(F f) {
  double best = 1e9, least_work = 1e9;
  int undisturbed = 0;
  const Stopwatch all;
  while (all.seconds() < .1 || (undisturbed < 5 && all.seconds() < .5)) {
    const Stopwatch clock;
    const double worked = f(), seconds = clock.seconds();
    best = std::min(best, seconds);
    least_work = std::min(least_work, worked);
    if (seconds < 1.1 * worked) ++undisturbed;
  }
  return undisturbed > 0 ? best : least_work;
}

// Each thread's share of `floats`, in whole steps of the loop in read_once().
size_t share_of(size_t floats) { return floats / static_cast<size_t>(max_threads()) / (8 * W) * (8 * W); }

bool measures_bf16(Matmul matmul) { return matmul == Matmul::bf16 && gemm_has_bf16(); }

// Of the measurements so far with as many threads; 0 before the first.
double& largest_flops(Matmul matmul) {
  static std::map<std::pair<bool, int>, double> largest;
  return largest[{measures_bf16(matmul), max_threads()}];
}

}  // namespace

double measure_flops(Matmul matmul) {
  const double known = largest_flops(matmul);
  return known > 0 ? known : measure_flops_again(matmul);
}

double measure_flops_again(Matmul matmul) {
  constexpr int kTimes = 400'000;
  const bool pairs = measures_bf16(matmul), tiles = pairs && gemm_has_amx();
  const double seconds = best_of([&] {
    return on_all_threads([&](int) {
      if (tiles) return amx::repeat_products(kTimes);
#if defined(__AVX512BF16__)
      if (pairs) return run(kTimes, [](Vec sum, Vec a, Vec b) { return simd::bf16_dot(sum, a, b); });
#endif
      run(kTimes, [](Vec sum, Vec a, Vec b) { return next_sum(sum, a, b); });
    });
  });
  const double each = tiles ? amx::kRepeated : 2. * kSums * W * (pairs ? 2 : 1);
  double& largest = largest_flops(matmul);
  return largest = std::max(largest, each * kTimes * max_threads() / seconds);
}

double read_once(const float* x, size_t floats) {
  const size_t share = share_of(floats);
  return on_all_threads([&](int thread) {
    const float* p = x + thread * share;
    Vec sum[8] = {};
    for (size_t i = 0; i < share; i += 8 * W)
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) sum[j] += simd::load(p + i + j * W);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) hide(sum[j]);
  });
}

Bandwidth measure_bandwidth(size_t floats) {
  const Buffer from = allocate(floats), to = allocate(floats);
  const size_t share = share_of(floats);
  const double read = best_of([&] { return read_once(from.get(), floats); });
  const double copy = best_of([&] {
    return on_all_threads(
        [&](int thread) { std::copy_n(from.get() + thread * share, share, to.get() + thread * share); });
  });
  const double bytes = static_cast<double>(share) * max_threads() * sizeof(float);
  return {bytes / read, 2 * bytes / copy};
}

double Utilization::of(double tokens_per_second) {
  const double speed = tokens_per_second * work_;
  if (most_ == 0) most_ = measure_flops(matmul_);
  most_ = std::max(most_, speed);
  return speed / most_;
}
