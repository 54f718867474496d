#pragma once
// Low-rank adapters of a linear layer (LoRA, Hu et al. 2021, arXiv 2106.09685).
//
//   x (N,I)   a (R,I)   b (P,R)   y (N,O): columns `begin` to begin + P are adapted
//   forward   y  += scale·x aᵀ bᵀ
//   backward  dx += scale·dy b a      da += scale·bᵀ dyᵀ x      db += scale·dyᵀ (x aᵀ)

#include <cstddef>
#include <vector>

namespace textbook {

// Adapter: its matrices, or their gradients.
template <class Number>
struct Adapter {
  Number *a, *b;
  size_t begin, P, R;
  double scale;
};

// x[n,:] aᵀ
template <class Number>
std::vector<Number> projected(const Number* x, const Number* a, size_t n, size_t I, size_t R) {
  std::vector<Number> low(R);
  for (size_t k = 0; k < R; ++k)
    for (size_t i = 0; i < I; ++i) low[k] += x[n * I + i] * a[k * I + i];
  return low;
}

template <class Number>
void lora_forward(Number* y, const Number* x, const Adapter<Number>& p, size_t N, size_t I, size_t O) {
  for (size_t n = 0; n < N; ++n) {
    const std::vector<Number> low = projected(x, p.a, n, I, p.R);
    for (size_t o = 0; o < p.P; ++o)
      for (size_t k = 0; k < p.R; ++k) y[n * O + p.begin + o] += p.scale * low[k] * p.b[o * p.R + k];
  }
}

template <class Number>
void lora_backward(Number* dx, const Adapter<Number>& g, const Number* dy, const Number* x, const Adapter<Number>& p,
                   size_t N, size_t I, size_t O) {
  for (size_t n = 0; n < N; ++n) {
    const std::vector<Number> low = projected(x, p.a, n, I, p.R);
    for (size_t k = 0; k < p.R; ++k) {
      Number dlow = 0;
      for (size_t o = 0; o < p.P; ++o) {
        const Number d = p.scale * dy[n * O + p.begin + o];  // y = scale·Σₖ low[k]·b[o,k]
        dlow += d * p.b[o * p.R + k];
        g.b[o * p.R + k] += d * low[k];
      }
      for (size_t i = 0; i < I; ++i) {  // low[k] = Σᵢ x[n,i]·a[k,i]
        dx[n * I + i] += dlow * p.a[k * I + i];
        g.a[k * I + i] += dlow * x[n * I + i];
      }
    }
  }
}

}  // namespace textbook
