#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The 97.5 % quantile of Student's t with 1, 2, ... degrees of freedom; beyond the table the expansion in 1/df of
// Abramowitz & Stegun 26.7.5, which is exact to 4 digits there.
double t_quantile(int df) {
  constexpr double kTable[] = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281};
  if (df <= 10) return kTable[df - 1];
  constexpr double z = 1.959964;
  const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z, n = df;
  return z + (z3 + z) / (4 * n) + (5 * z5 + 16 * z3 + 3 * z) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * n * n * n);
}

}  // namespace

bool Estimate::contains_zero() const { return !(std::abs(mean) > half_width); }

Estimate estimate(const std::vector<double>& x) {
  if (x.empty()) return {kNone, kNone, kNone};
  const int n = static_cast<int>(x.size());
  double sum = 0, squares = 0;
  for (const double value : x) sum += value;
  const double mean = sum / n;
  if (n == 1) return {mean, kNone, kNone};
  for (const double value : x) squares += (value - mean) * (value - mean);
  const double sd = std::sqrt(squares / (n - 1));
  return {mean, sd, t_quantile(n - 1) * sd / std::sqrt(n)};
}

double share_of_spikes(const std::vector<double>& values) {
  constexpr int kWindow = 128;
  constexpr double kDeviations = 6;
  const int n = static_cast<int>(values.size());
  int spikes = 0;
  for (int i = kWindow; i < n; ++i) {
    const Estimate before = estimate({&values[i - kWindow], &values[i]});
    spikes += values[i] > before.mean + kDeviations * before.sd;
  }
  return n > kWindow ? double(spikes) / (n - kWindow) : kNone;
}

double first_at_or_below(double target, const std::vector<double>& x, const std::vector<double>& y) {
  for (size_t i = 0; i < y.size(); ++i) {
    if (!(y[i] <= target)) continue;
    if (i == 0) return x[0];
    return x[i - 1] + (x[i] - x[i - 1]) * (y[i - 1] - target) / (y[i - 1] - y[i]);
  }
  return kNone;
}

double lr_sensitivity(const std::vector<double>& losses, const std::vector<double>& initial) {
  std::vector<double> capped;
  for (size_t i = 0; i < losses.size(); ++i) capped.push_back(std::fmin(losses[i], initial[i]));
  return capped.empty() ? kNone : estimate(capped).mean - *std::min_element(capped.begin(), capped.end());
}
