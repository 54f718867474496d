#include "reductions.hpp"

#include <algorithm>
#include <cstddef>

#include "parallel.hpp"

void add_column_sums(float* out, const float* x, int N, int C) {
  constexpr int kColumns = 64;
  parallel_for(C, kColumns, N, [&](int begin, int end) {
    for (int c0 = begin; c0 < end; c0 += kColumns) {
      const int columns = std::min(kColumns, end - c0);
      double total[kColumns] = {};
      for (int n0 = 0; n0 < N; n0 += kRowBlock) {
        float block[kColumns] = {};
        for (int n = n0; n < std::min(N, n0 + kRowBlock); ++n)
          for (int c = 0; c < columns; ++c) block[c] += x[static_cast<size_t>(n) * C + c0 + c];
        for (int c = 0; c < columns; ++c) total[c] += static_cast<double>(block[c]);
      }
      for (int c = 0; c < columns; ++c) out[c0 + c] += static_cast<float>(total[c]);
    }
  });
}
