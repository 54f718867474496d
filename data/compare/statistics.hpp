#pragma once
// Statistics of a few numbers and of a curve. NaN means that a number does not exist.

#include <vector>

// A mean and the half width of its 95 % interval by Student's t ("Student" 1908): mean ± t · sd / √n, with t's quantile
// for n − 1 degrees of freedom. sd and half_width need two numbers.
struct Estimate {
  double mean, sd, half_width;
  int n = 0;

  bool contains_zero() const;  // true if the half width is unknown
};
Estimate estimate(const std::vector<double>& values);

// Student's t distribution. t_within() returns the probability of a value between -t and t (negative for t < 0), by the
// finite series of Abramowitz & Stegun 1964, 26.7.3 and 26.7.4. t_quantile() is its inverse. Errors are below 1e-14.
double t_within(double t, int degrees_of_freedom);
double t_quantile(double within, int degrees_of_freedom);

// Returns the p value of the two-sided t test that the true mean is 0. NaN for fewer than two numbers.
double p_of_zero(const Estimate& e);

// Returns the p value of two one-sided t tests that the true mean is not between -margin and margin (Schuirmann 1987).
// Below 0.05, the mean is equal to 0 within the margin. NaN for fewer than two numbers.
double p_of_inequality(const Estimate& e, double margin);

// Corrects p values for their number (Holm 1979): at a threshold of 0.05, at most one family of tests in twenty rejects
// a true hypothesis. A comparison without a result has NaN and keeps it. `comparisons` is their number with those.
std::vector<double> holm(const std::vector<double>& p, size_t comparisons = 0);

// The median and the range. For an even number of values, the median is the mean of the middle two.
struct Spread {
  double median, low, high;
};
Spread spread(std::vector<double> values);

// Returns the share of values that are more than 6 standard deviations above the mean of the 128 values before them.
// The first 128 values do not count. (OLMo-core's spike score.)
double share_of_spikes(const std::vector<double>& values);

// Returns the x at which a falling curve first reaches `target`, interpolated linearly between the two points around
// it.
double first_at_or_below(double target, const std::vector<double>& x, const std::vector<double>& y);

// Learning-rate sensitivity: min(loss, initial loss) minus the lowest loss, averaged over the tried rates (Wortsman et
// al. 2023, arXiv 2309.14322). A loss that is not finite counts as the initial one.
double lr_sensitivity(const std::vector<double>& losses, const std::vector<double>& initial);
