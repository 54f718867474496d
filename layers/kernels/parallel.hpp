#pragma once
// All loops that threads share use these functions. Pieces are disjoint, and one piece computes each output element in
// a fixed order, so results are bit-identical for any number of threads.

#include <algorithm>
#include <cstddef>

#ifdef _OPENMP
#include <omp.h>
#endif

inline int max_threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}

// A loop with fewer elementary operations ends before another thread would wake up.
constexpr size_t kWorthSharing = 1 << 14;

// This thread's number, and the number of threads.
struct Team {
  int thread = 0, threads = 1;
};
inline Team this_team() {
#ifdef _OPENMP
  return {omp_get_thread_num(), omp_get_num_threads()};
#else
  return {};
#endif
}

// True on the threads of parallel_together().
inline thread_local bool loops_are_together = false;

// Calls f(begin, end) for pieces of [0, n) that start at multiples of `grain`. Threads get equal contiguous shares.
// `work` is the cost of one item in elementary operations.
template <class F>
void parallel_for(int n, int grain, size_t work, F f) {
  const int pieces = (n + grain - 1) / grain;
  const bool share = pieces > 1 && max_threads() > 1 && static_cast<size_t>(n) * work >= kWorthSharing;
  const auto take_share = [&](Team team) {
    const int first = static_cast<int>(static_cast<long long>(pieces) * team.thread / team.threads);
    const int last = static_cast<int>(static_cast<long long>(pieces) * (team.thread + 1) / team.threads);
    if (first < last) f(first * grain, std::min(n, last * grain));
  };
  if (!share) {
    if (!loops_are_together || this_team().thread == 0) take_share({});
  } else if (loops_are_together) {
    take_share(this_team());
  } else {
#pragma omp parallel
    take_share(this_team());
  }
}

// Calls f(i) for each item i of [0, n).
template <class F>
void parallel_each(int n, size_t work, F f) {
  parallel_for(n, 1, work, [&](int begin, int end) {
    for (int i = begin; i < end; ++i) f(static_cast<size_t>(i));
  });
}

// Runs f() on all threads. They share each parallel_for() in it, and do not wait for each other between the loops, so
// no loop in f may read what another writes. `work` is the total cost in elementary operations.
template <class F>
void parallel_together(size_t work, F f) {
  if (work < kWorthSharing) return f();
#pragma omp parallel
  {
    loops_are_together = true;
    f();
    loops_are_together = false;
  }
}

// Calls f(begin, end) for pieces of n floats, for work that costs a few operations per float.
template <class F>
void parallel_floats(size_t n, F f) {
  constexpr size_t kFloats = 1 << 16;
  parallel_for(static_cast<int>((n + kFloats - 1) / kFloats), 1, kFloats,
               [&](int begin, int end) { f(begin * kFloats, std::min(n, end * kFloats)); });
}

// Calls f(task) for tasks of unequal cost. Each free thread takes the next one.
template <class F>
void parallel_tasks(int tasks, F f) {
#pragma omp parallel for schedule(dynamic, 1) if (tasks > 1)
  for (int task = 0; task < tasks; ++task) f(task);
}

// Calls f(task) for tasks of equal cost, in equal contiguous shares. A thread has the same share in every call, so it
// finds what it wrote in its cache.
template <class F>
void parallel_equal_tasks(int tasks, F f) {
  parallel_each(tasks, kWorthSharing, f);
}
