#include "ladder.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "data/host/peak.hpp"
#include "data/host/progress.hpp"
#include "layers/kernels/parallel.hpp"
#include "layers/kernels/random.hpp"

namespace {

constexpr double kTolerance = 1e-5;  // ‖got − want‖ / ‖want‖: above rounding in float, below any mistake
constexpr double kSeconds = .25;     // spent on a rung; the best time counts, as for the ceilings
constexpr int kIdeaWidth = 50;

int wrong_rungs = 0;

const int kAllThreads = max_threads();

void use(Threads threads) {
#ifdef _OPENMP
  omp_set_num_threads(threads == Threads::one ? 1 : kAllThreads);
#else
  (void)threads;
#endif
}

// Infinity if a number is not finite.
double error_of(const Output& output) {
  if (output.got.size != output.want.size()) return INFINITY;
  double off = 0, norm = 0;
  for (size_t i = 0; i < output.want.size(); ++i) {
    const double want = output.want[i], difference = static_cast<double>(output.got.buffer[i]) - want;
    off += difference * difference;
    norm += want * want;
  }
  const double error = std::sqrt(off / norm);
  return std::isfinite(error) ? error : INFINITY;
}

// The best of as many measurements as fit into kSeconds, as for a rung.
template <class Measure>
double best_of(Threads threads, Measure measure) {
  use(threads);
  const Stopwatch clock;
  double best = 0;
  do best = std::max(best, measure());
  while (clock.seconds() < kSeconds);
  use(Threads::all);
  return best;
}

template <class Measure>
Ceiling on_one_and_all(Measure measure) {
  return {best_of(Threads::one, measure), best_of(Threads::all, measure)};
}

std::string in_words(int threads) { return std::to_string(threads) + (threads == 1 ? " thread" : " threads"); }

}  // namespace

Tensor::Tensor(size_t n, uint64_t seed, float mean, float deviation) : Tensor(n) {
  for (size_t i = 0; i < n; ++i)
    buffer[i] = mean + deviation * static_cast<float>(rng::normal(rng::key({seed}), i));
}

void Tensor::fill(float x) const { std::fill_n(get(), size, x); }

std::vector<double> Tensor::widen() const { return {get(), get() + size}; }

Ceiling flops_ceiling(Matmul matmul) {
  return on_one_and_all([&] { return measure_flops(matmul); });
}

Ceiling copy_ceiling(size_t floats) {
  const size_t enough = std::max(floats, size_t(1) << 16);  // for a stopwatch
  return on_one_and_all([&] { return measure_bandwidth(enough).copy; });
}

Ladder::Ladder(const std::string& title, double work, const std::string& unit, Ceiling ceiling,
               std::vector<Output> outputs)
    : work_(work), unit_(unit), ceiling_(ceiling), outputs_(std::move(outputs)) {
  std::printf("%s\n", title.c_str());
  std::printf("  ceiling: %.1f G%s/s on 1 thread, %.1f on %d\n", ceiling.one * 1e-9, unit.c_str(), ceiling.all * 1e-9,
              kAllThreads);
}

void Ladder::compare_with(Ceiling ceiling, std::vector<Output> outputs) {
  ceiling_ = ceiling, outputs_ = std::move(outputs);
}

void Ladder::rung(const std::string& idea, Threads threads, const std::function<void()>& run) {
  for (const Output& output : outputs_) output.got.fill(NAN);  // erase the results of the previous rung
  use(threads);
  const Stopwatch all;
  double seconds = std::numeric_limits<double>::max();
  do {
    const Stopwatch once;
    run();
    seconds = std::min(seconds, once.seconds());
  } while (all.seconds() < kSeconds);
  use(Threads::all);

  double error = 0;
  for (const Output& output : outputs_) error = std::max(error, error_of(output));
  if (rungs_ == 0) first_ = seconds;
  const double speed = work_ / seconds, share = speed / (threads == Threads::one ? ceiling_.one : ceiling_.all);
  std::printf("  %d  %-*s %7.2f G%s/s %6.1f %% of %-10s %6.1f×   error %.1e\n", rungs_, kIdeaWidth, idea.c_str(),
              speed * 1e-9, unit_.c_str(), share * 100, in_words(threads == Threads::one ? 1 : kAllThreads).c_str(),
              first_ / seconds, error);
  std::fflush(stdout);
  if (!(error <= kTolerance)) {
    std::fprintf(stderr, "  rung %d (%s) is WRONG: error %.1e, allowed %.1e\n", rungs_, idea.c_str(), error,
                 kTolerance);
    ++wrong_rungs;
  }
  ++rungs_;
}

int Ladder::exit_status() { return wrong_rungs > 0; }

std::vector<int> sizes_from(int argc, char** argv, const std::string& letters, std::vector<int> sizes) {
  const int given = argc - 1;
  bool good = given == 0 || given == static_cast<int>(sizes.size());
  for (int i = 0; good && i < given; ++i) good = (sizes[i] = std::atoi(argv[i + 1])) > 0;
  if (good) return sizes;
  std::fprintf(stderr, "usage: %s [%s]\n", argv[0], letters.c_str());
  std::exit(2);
}
