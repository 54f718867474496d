#pragma once
// Statistics of a few numbers and of a curve. A number that does not exist is NaN.

#include <vector>

// A mean and the half width of its 95 % interval by Student's t ("Student" 1908): mean ± t · sd / √n, with t's quantile
// for n − 1 degrees of freedom. sd and half_width need two numbers.
struct Estimate {
  double mean, sd, half_width;

  bool contains_zero() const;  // true if the half width is unknown
};
Estimate estimate(const std::vector<double>& values);

// Share of values that lie more than 6 standard deviations above the mean of the 128 values before them. The first 128
// values do not count. (OLMo-core's spike score.)
double share_of_spikes(const std::vector<double>& values);

// The x at which a falling curve first reaches `target`, on the straight line between the two points around it.
double first_at_or_below(double target, const std::vector<double>& x, const std::vector<double>& y);

// The mean over the tried learning rates of min(loss, initial loss) − the lowest (Wortsman et al. 2023, arXiv
// 2309.14322). A loss that is not finite counts as the initial one.
double lr_sensitivity(const std::vector<double>& losses, const std::vector<double>& initial);
