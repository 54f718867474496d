#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// Returns the mean and the standard deviation, without an interval.
Estimate moments(const std::vector<double>& x) {
  Estimate e{kNone, kNone, kNone, static_cast<int>(x.size())};
  if (x.empty()) return e;
  double sum = 0, squares = 0;
  for (const double value : x) sum += value;
  e.mean = sum / e.n;
  for (const double value : x) squares += (value - e.mean) * (value - e.mean);
  if (e.n > 1) e.sd = std::sqrt(squares / (e.n - 1));
  return e;
}

}  // namespace

double t_within(double t, int degrees_of_freedom) {
  const double angle = std::atan(t / std::sqrt(degrees_of_freedom)), square = std::pow(std::cos(angle), 2);
  const bool odd = degrees_of_freedom % 2 == 1;
  double term = odd ? std::cos(angle) : 1, sum = 0;
  for (int i = odd ? 3 : 2; i <= degrees_of_freedom; i += 2) {
    sum += term;
    term *= square * (i - 1) / i;
  }
  return odd ? 2 / M_PI * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
}

double t_quantile(double within, int degrees_of_freedom) {
  double low = 0, high = 1;
  while (t_within(high, degrees_of_freedom) < within) high *= 2;
  for (double middle; middle = low + (high - low) / 2, low < middle && middle < high;)
    (t_within(middle, degrees_of_freedom) < within ? low : high) = middle;
  return high;
}

double p_of_zero(const Estimate& e) {
  if (e.n < 2) return kNone;
  return e.mean == 0 ? 1 : 1 - t_within(std::abs(e.mean) / (e.sd / std::sqrt(e.n)), e.n - 1);
}

double p_of_inequality(const Estimate& e, double margin) {
  if (e.n < 2) return kNone;
  return (1 - t_within((margin - std::abs(e.mean)) / (e.sd / std::sqrt(e.n)), e.n - 1)) / 2;
}

std::vector<double> holm(const std::vector<double>& p, size_t comparisons) {
  std::vector<size_t> order;
  for (size_t i = 0; i < p.size(); ++i)
    if (!std::isnan(p[i])) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return p[i] < p[j]; });
  comparisons = std::max(comparisons, order.size());
  std::vector<double> corrected(p.size(), kNone);
  double highest = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    highest = std::max(highest, p[order[rank]] * static_cast<double>(comparisons - rank));
    corrected[order[rank]] = std::min(1., highest);
  }
  return corrected;
}

bool Estimate::contains_zero() const { return !(std::abs(mean) > half_width); }

Estimate estimate(const std::vector<double>& x) {
  Estimate e = moments(x);
  if (e.n > 1) e.half_width = t_quantile(0.95, e.n - 1) * e.sd / std::sqrt(e.n);
  return e;
}

Spread spread(std::vector<double> x) {
  if (x.empty() || std::any_of(x.begin(), x.end(), [](double value) { return std::isnan(value); }))
    return {kNone, kNone, kNone};
  std::sort(x.begin(), x.end());
  const size_t n = x.size();
  return {(x[(n - 1) / 2] + x[n / 2]) / 2, x.front(), x.back()};
}

double share_of_spikes(const std::vector<double>& values) {
  constexpr int kWindow = 128;
  constexpr double kDeviations = 6;
  const int n = static_cast<int>(values.size());
  int spikes = 0;
  for (int i = kWindow; i < n; ++i) {
    const Estimate before = moments({&values[i - kWindow], &values[i]});
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
