#include "embedding.hpp"

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

void embedding_forward(float* x, const int* tokens, const float* weight, int N, int C, float scale,
                       NumberType numbers) {
  as_numbers(weight, numbers, [&](const auto* rows) {
    parallel_each(N, C, [&](size_t n) {
      const auto* from = rows + static_cast<size_t>(tokens[n]) * C;
      simd::sweep(C, [&](int c, int lanes) { simd::store(x + n * C + c, scale * simd::load(from + c, lanes), lanes); });
    });
  });
}

// Two rows may hold the same token, so threads share the columns, not the rows.
void embedding_backward(float* dweight, const int* tokens, const float* dx, int N, int C, float scale) {
  parallel_for(C, 32, N, [&](int begin, int end) {
    for (int n = 0; n < N; ++n) {
      float* to = dweight + static_cast<size_t>(tokens[n]) * C;
      const float* from = dx + static_cast<size_t>(n) * C;
      for (int c = begin; c < end; ++c) to[c] += scale * from[c];
    }
  });
}
