#pragma once
// Number types and vector functions of the textbook, which writes each layer again as plain loops.
//
// Every textbook layer is a template of its number type:
//   float                 what the fast layers compute with
//   double                the reference that tests compare the fast layers with
//   std::complex<double>  checks the backward passes by complex-step differentiation (Squire & Trapp 1998):
//
//     F'(x) = Im F(x + ih) / h       with h = 1e-50: there is no difference, so nothing cancels
//
// The complex step needs an analytic F. Comparisons are not analytic, so they compare real parts. A derivative that is
// left out on purpose is left out of the complex step as well: see stop_gradient.

#include <cmath>
#include <complex>
#include <cstddef>
#include <numbers>

namespace textbook {

template <class Number>
Number larger(Number a, Number b) {
  return std::real(a) < std::real(b) ? b : a;
}

// Returns x with the derivative 0: a step is imaginary, and the real part of x does not have it.
template <class Number>
Number stop_gradient(Number x) {
  return std::real(x);
}

// σ(x)
template <class Number>
Number sigmoid(Number x) {
  return Number(1) / (Number(1) + std::exp(-x));
}

using std::erf;

// erf z = 2/√π e^(-z²) Σₙ 2ⁿ z²ⁿ⁺¹ / (1·3·5···(2n + 1))        (Abramowitz & Stegun 1964, 7.1.6)
// The standard library has erf for real numbers only. erf(a) + ih·2/√π e^(-a²) would be shorter, but it contains the
// derivative that the complex step is meant to check; the series does not. Its terms have one sign on the real axis,
// and 200 of them suffice for |z| < 6. Beyond, erf is ±1 and its slope less than 3e-16.
inline std::complex<double> erf(std::complex<double> z) {
  if (std::fabs(z.real()) >= 6) return z.real() > 0 ? 1 : -1;
  std::complex<double> term = z, sum = z;
  for (int n = 1; n < 200; ++n) {
    term *= 2.0 * z * z / (2.0 * n + 1.0);
    sum += term;
  }
  return 2 * std::numbers::inv_sqrtpi * std::exp(-z * z) * sum;
}

// Σ_d a[d]·x[d]
template <class Number>
Number dot(const Number* a, const Number* x, size_t D) {
  Number sum = 0;
  for (size_t d = 0; d < D; ++d) sum += a[d] * x[d];
  return sum;
}

// y += factor·x
template <class Number>
void add(Number* y, Number factor, const Number* x, size_t D) {
  for (size_t d = 0; d < D; ++d) y[d] += factor * x[d];
}

}  // namespace textbook
