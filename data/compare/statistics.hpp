#pragma once
// Statistics of a few numbers and of a curve.

#include <vector>

// A mean and the half width of its 95 % interval by Student's t ("Student" 1908): mean ± t · sd / √n, with t's quantile
// for n − 1 degrees of freedom. One number has no spread: sd and half_width are NaN.
struct Estimate {
  double mean, sd, half_width;
  int n;

  bool contains_zero() const;  // also where the width is not known: nothing is shown then
};
Estimate estimate(const std::vector<double>& values);  // NaN where there are none

// Share of values that lie more than 6 standard deviations above the mean of the 128 before them, among those that have
// 128 before them; NaN where none has. (OLMo-core's spike score.)
double share_of_spikes(const std::vector<double>& values);

// Where a falling curve first comes down to `target`: x on the straight line between the two points around it. NaN where
// it never does.
double first_at_or_below(double target, const std::vector<double>& x, const std::vector<double>& y);

// How much the final loss suffers from other learning rates than the best (Wortsman et al. 2023, arXiv 2309.14322): the
// mean over a logarithmic grid of min(loss, initial loss) − the lowest. A loss that is not finite counts as initial.
double lr_sensitivity(const std::vector<double>& losses, const std::vector<double>& initial);
