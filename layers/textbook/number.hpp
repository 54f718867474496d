#pragma once
// The textbook: each layer once more, as naive as it can be. Its layers are templates of the number they
// compute with: float, as the product does; double, as the yardstick the product is held against;
// std::complex<double>, to certify the backward passes by complex step (Squire & Trapp 1998):
//
//   F'(x) = Im F(x + ih) / h        h = 1e-50: no difference is taken, so nothing cancels
//
// It holds where F is analytic. Comparisons are not: they look at the real part alone.

#include <cmath>
#include <complex>
#include <numbers>

namespace textbook {

template <class Number>
Number larger(Number a, Number b) {
  return std::real(a) < std::real(b) ? b : a;
}

using std::erf;

// erf z = 2/√π e^(-z²) Σₙ 2ⁿ z²ⁿ⁺¹ / (1·3·5···(2n + 1))        (Abramowitz & Stegun 1964, 7.1.6)
// The standard library stops at real numbers. erf(a) + ih·2/√π e^(-a²) would be shorter, but it writes down
// the very derivative that the certificate is to find; the series does not. On the real axis its terms have
// one sign; 200 of them serve |z| < 6.
inline std::complex<double> erf(std::complex<double> z) {
  std::complex<double> term = z, sum = z;
  for (int n = 1; n < 200; ++n) {
    term *= 2.0 * z * z / (2.0 * n + 1.0);
    sum += term;
  }
  return 2 * std::numbers::inv_sqrtpi * std::exp(-z * z) * sum;
}

}  // namespace textbook
