#include "embedding.hpp"

#include <cstring>

#include "layers/kernels/parallel.hpp"

void embedding_forward(float* x, const int* tokens, const float* weight, int N, int C, float scale) {
  parallel_each(N, C, [&](size_t n) {
    float* to = x + n * C;
    const float* from = weight + static_cast<size_t>(tokens[n]) * C;
    if (scale == 1) {
      std::memcpy(to, from, C * sizeof(float));
      return;
    }
    for (int c = 0; c < C; ++c) to[c] = scale * from[c];
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
