#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "check.hpp"

#include <cstdio>
#include <cstring>
#include <limits>
#include <map>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "layers/kernels/random.hpp"

namespace {

struct Worst {
  double error = 0, tolerance = 0;
  std::string name;
};
std::map<std::string, Worst> worst_of_layer;  // the error closest to its tolerance

#if defined(CATCH_VERSION_MAJOR) && CATCH_VERSION_MAJOR >= 3
using Listener = Catch::EventListenerBase;
#else
using Listener = Catch::TestEventListenerBase;
#endif

// Prints the worst error of each layer at the end, so that you can tighten tolerances.
struct PrintWorstErrors : Listener {
  using Listener::Listener;
  void testRunStarting(const Catch::TestRunInfo& info) override {
    Listener::testRunStarting(info);
    set_threads(1);
  }
  void testRunEnded(const Catch::TestRunStats& stats) override {
    Listener::testRunEnded(stats);
    for (const auto& [layer, worst] : worst_of_layer)
      std::printf("worst error of %-24s %.1e of %.1e allowed   %s\n", layer.c_str(), worst.error,
                  worst.tolerance, worst.name.c_str());
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(PrintWorstErrors)

double relative_error(std::span<const float> got, std::span<const double> want, double s) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (got.size() != want.size() || want.empty()) return kInfinity;
  double difference = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = static_cast<double>(got[i]) - want[i];
    difference += d * d;
    size += want[i] * want[i];
  }
  if (!std::isfinite(difference) || !std::isfinite(size) || !std::isfinite(s)) return kInfinity;
  if (difference == 0) return 0;
  return std::sqrt(difference) / std::max(std::sqrt(size), 1e-3 * s);
}

void check_close(const std::string& name, std::span<const float> got, std::span<const double> want,
                 double tolerance, double s) {
  check_error(name, relative_error(got, want, s), tolerance);
}

void check_error(const std::string& name, double error, double tolerance) {
  Worst& worst = worst_of_layer[name.substr(0, name.find('/'))];
  if (worst.name.empty() || error / tolerance > worst.error / worst.tolerance)
    worst = {error, tolerance, name};
  INFO(name << ": relative error " << error << ", allowed " << tolerance);
  CHECK(error <= tolerance);
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

std::vector<float> random_floats(size_t n, uint64_t seed, float mean, float deviation) {
  std::vector<float> x(n);
  const uint64_t key = rng::key({seed, rng::word("test")});
  for (size_t i = 0; i < n; ++i) x[i] = mean + deviation * static_cast<float>(rng::normal(key, i));
  return x;
}

std::vector<int> random_ints(size_t n, uint64_t seed, int below) {
  std::vector<int> x(n);
  const uint64_t key = rng::key({seed, rng::word("test")});
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<int>(rng::below(below, key, i));
  return x;
}

std::vector<float> garbage(size_t n) {
  return std::vector<float>(n, std::numeric_limits<float>::quiet_NaN());
}

std::vector<double> widen(std::span<const float> x) { return {x.begin(), x.end()}; }

std::vector<float> joined(std::initializer_list<std::span<const float>> parts) {
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<double> times(double factor, std::vector<double> x) {
  for (double& value : x) value *= factor;
  return x;
}

double norm_of(std::span<const double> x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return std::sqrt(sum);
}

void set_threads(int n) {
#ifdef _OPENMP
  omp_set_num_threads(n);
#else
  (void)n;
#endif
}
