#pragma once
// Optimizers other than AdamW: SGD, Lion, Adafactor, Muon and NorMuon. Sources are in layers/training/optimizer.hpp,
// adafactor.hpp and muon.hpp.
//
// One step of one tensor of n numbers, or of one matrix (rows,cols). weight_decay is 0 for tensors that do not decay.
//   every one   g ← g·gradient_factor
//   SGD         g ← g + weight_decay·w        b ← μ b + g                w ← w − lr·b, or with Nesterov lr·(g + μ b)
//   Lion        w ← w − lr·weight_decay·w     w ← w − lr·sign(β₁ m + (1 − β₁) g)          m ← β₂ m + (1 − β₂) g
//   Adafactor   r_i ← r_i + s (mean_j g_ij² − r_i)       c_j ← c_j + s (mean_i g_ij² − c_j)       s = t^−0.8
//               v_ij = r_i c_j / mean(r), or for a vector v_i = c_i ← c_i + s (g_i² − c_i)
//               u = g/√max(v, 1e-30)          u ← u / max(1, rms(u))
//               w ← w − lr·weight_decay·w − lr·max(1e-3, rms(w))·u          w in rms(w) has not decayed
//   Muon        b ← μ b + (1 − μ) g           U = b, or with Nesterov (1 − μ) g + μ b
//               w ← w − lr·weight_decay·w     w ← w − lr·scale·orthogonalize(U)
//   NorMuon     the same with O = orthogonalize(U), whose rows get equal sizes:  v_i ← β₂ v_i + (1 − β₂) mean_j O_ij²
//               O_ij ← O_ij / (√v_i + 1e-10), and then a factor restores ‖O‖

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "adamw.hpp"

namespace textbook {

template <class Number>
struct Sgd {
  Number momentum;
  bool nesterov;
  Number weight_decay;
};

template <class Number>
void sgd_step(Number* weights, Number* buffer, const Number* gradients, size_t n, const Sgd<Number>& p,
              const StepNow<Number>& now) {
  const auto [momentum, nesterov, weight_decay] = p;
  for (size_t i = 0; i < n; ++i) {
    const Number g = gradients[i] * now.gradient_factor + weight_decay * weights[i];
    buffer[i] = momentum * buffer[i] + g;
    weights[i] -= now.lr * (nesterov ? g + momentum * buffer[i] : buffer[i]);
  }
}

template <class Number>
struct Lion {
  Number beta1, beta2, weight_decay;
};

template <class Number>
void lion_step(Number* weights, Number* m, const Number* gradients, size_t n, const Lion<Number>& p,
               const StepNow<Number>& now) {
  const auto [beta1, beta2, weight_decay] = p;
  for (size_t i = 0; i < n; ++i) {
    const Number g = gradients[i] * now.gradient_factor, u = beta1 * m[i] + (1 - beta1) * g;
    weights[i] -= now.lr * weight_decay * weights[i];
    weights[i] -= now.lr * ((u > 0) - (u < 0));
    m[i] = beta2 * m[i] + (1 - beta2) * g;
  }
}

// c (cols). r: null for a vector, which is one row; (rows) for a matrix.
template <class Number>
void adafactor_step(Number* weights, Number* r, Number* c, const Number* gradients, size_t rows, size_t cols,
                    Number weight_decay, const StepNow<Number>& now) {
  const auto [lr, gradient_factor, t] = now;
  const Number newest = std::pow(Number(t), Number(-.8)), size = Number(rows * cols);
  std::vector<Number> u(rows * cols), row_means(rows), col_means(cols);
  Number weight_squares = 0, mean_of_rows = 0;
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j) {
      const Number g = u[i * cols + j] = gradients[i * cols + j] * gradient_factor;
      row_means[i] += g * g / Number(cols);
      col_means[j] += g * g / Number(rows);
      weight_squares += weights[i * cols + j] * weights[i * cols + j];
    }
  for (size_t j = 0; j < cols; ++j) c[j] += newest * (col_means[j] - c[j]);
  for (size_t i = 0; i < rows && r; ++i) {
    r[i] += newest * (row_means[i] - r[i]);
    mean_of_rows += r[i] / Number(rows);
  }
  Number squares = 0;
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j) {
      const Number v = r ? r[i] / std::max(mean_of_rows, Number(1e-30)) * c[j] : c[j];
      u[i * cols + j] /= std::sqrt(std::max(v, Number(1e-30)));
      squares += u[i * cols + j] * u[i * cols + j];
    }
  const Number rate = lr * std::max(Number(1e-3), std::sqrt(weight_squares / size)) /
                      std::max(Number(1), std::sqrt(squares / size));
  for (size_t i = 0; i < u.size(); ++i) {
    weights[i] -= lr * weight_decay * weights[i];
    weights[i] -= rate * u[i];
  }
}

// ‖x‖, the Frobenius norm of a matrix.
template <class Number>
Number length(const std::vector<Number>& x) {
  Number squares = 0;
  for (const Number& number : x) squares += number * number;
  return std::sqrt(squares);
}

// x (n,m) ← a x + b (x xᵀ) x + c (x xᵀ)² x. It changes only the singular values: σ ← aσ + bσ³ + cσ⁵.
template <class Number>
void odd_polynomial(std::vector<Number>& x, size_t n, size_t m, Number a, Number b, Number c) {
  std::vector<Number> square(n * n), p(n * n), y(n * m);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t k = 0; k < m; ++k) square[i * n + j] += x[i * m + k] * x[j * m + k];
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      p[i * n + j] = (i == j ? a : 0) + b * square[i * n + j];
      for (size_t k = 0; k < n; ++k) p[i * n + j] += c * square[i * n + k] * square[k * n + j];
    }
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j)
      for (size_t k = 0; k < n; ++k) y[i * m + j] += p[i * n + k] * x[k * m + j];
  x = y;
}

// Sends the singular values of x to about 1, with one polynomial {a, b, c} after the other.
template <class Number, class Polynomials>
void orthogonalize(std::vector<Number>& x, size_t rows, size_t cols, const Polynomials& polynomials,
                   Number margin) {
  const Number size = length(x) * margin + Number(1e-7);
  for (Number& number : x) number /= size;
  const bool tall = rows > cols;
  std::vector<Number> wide(x);
  if (tall)
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < cols; ++j) wide[j * rows + i] = x[i * cols + j];
  for (const auto& [a, b, c] : polynomials)
    odd_polynomial(wide, std::min(rows, cols), std::max(rows, cols), Number(a), Number(b), Number(c));
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < cols; ++j) x[i * cols + j] = tall ? wide[j * rows + i] : wide[i * cols + j];
}

// Scales the rows towards equal mean squares, and keeps the length of the matrix.
template <class Number>
void equalize_rows(std::vector<Number>& x, Number* v, size_t rows, size_t cols, Number beta2) {
  const Number before = length(x);
  for (size_t i = 0; i < rows; ++i) {
    Number squares = 0;
    for (size_t j = 0; j < cols; ++j) squares += x[i * cols + j] * x[i * cols + j];
    v[i] = beta2 * v[i] + (1 - beta2) * squares / Number(cols);
    for (size_t j = 0; j < cols; ++j) x[i * cols + j] /= std::sqrt(v[i]) + Number(1e-10);
  }
  const Number after = length(x) + Number(1e-10);
  for (Number& number : x) number *= before / after;
}

// polynomials and margin are those of orthogonalize. Only NorMuon reads beta2.
template <class Number, class Polynomials>
struct Muon {
  Number momentum;
  bool nesterov;
  Polynomials polynomials;
  Number margin, beta2, scale, weight_decay;
};

// v: null for Muon, (rows) for NorMuon.
template <class Number, class Polynomials>
void muon_step(Number* weights, Number* buffer, Number* v, const Number* gradients, size_t rows, size_t cols,
               const Muon<Number, Polynomials>& p, const StepNow<Number>& now) {
  const auto [momentum, nesterov, polynomials, margin, beta2, scale, weight_decay] = p;
  std::vector<Number> u(rows * cols);
  for (size_t i = 0; i < u.size(); ++i) {
    const Number g = gradients[i] * now.gradient_factor;
    buffer[i] = momentum * buffer[i] + (1 - momentum) * g;
    u[i] = nesterov ? (1 - momentum) * g + momentum * buffer[i] : buffer[i];
  }
  orthogonalize(u, rows, cols, polynomials, margin);
  if (v) equalize_rows(u, v, rows, cols, beta2);
  for (size_t i = 0; i < u.size(); ++i) {
    weights[i] -= now.lr * weight_decay * weights[i];
    weights[i] -= now.lr * scale * u[i];
  }
}

}  // namespace textbook
