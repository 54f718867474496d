#include "embedding.hpp"

#include "layers/kernels/parallel.hpp"
#include "layers/kernels/simd.hpp"

namespace {

template <class Number>
void look_up(float* x, const int* tokens, const Number* weight, int N, int C, float scale) {
  parallel_each(N, C, [&](size_t n) {
    const Number* from = weight + static_cast<size_t>(tokens[n]) * C;
    simd::sweep(C, [&](int c, int lanes) { simd::store(x + n * C + c, scale * simd::load(from + c, lanes), lanes); });
  });
}

}  // namespace

void embedding_forward(float* x, const int* tokens, const float* weight, int N, int C, float scale,
                       NumberType numbers) {
  if (numbers == NumberType::bf16)
    look_up(x, tokens, reinterpret_cast<const simd::Bfloat16*>(weight), N, C, scale);
  else
    look_up(x, tokens, weight, N, C, scale);
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
