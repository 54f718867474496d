#include "elementwise.hpp"

#include <cstring>

#include "parallel.hpp"

void scaled_add(float* out, float scale, const float* a, const float* b, int N, int C) {
  parallel_for(N, 1, C, [&](int begin, int end) {
    for (size_t i = static_cast<size_t>(begin) * C; i < static_cast<size_t>(end) * C; ++i)
      out[i] = scale * a[i] + b[i];
  });
}

void add_to_rows(float* x, const float* row, int N, int C) {
  parallel_for(N, 1, C, [&](int begin, int end) {
    for (size_t n = begin; n < static_cast<size_t>(end); ++n)
      for (int c = 0; c < C; ++c) x[n * C + c] += row[c];
  });
}

void scale_rows(float* x, float factor, int N, int C) {
  if (factor == 1) return;
  parallel_for(N, 1, C, [&](int begin, int end) {
    for (size_t i = static_cast<size_t>(begin) * C; i < static_cast<size_t>(end) * C; ++i) x[i] *= factor;
  });
}

void copy_rows(float* to, size_t to_stride, const float* from, size_t from_stride, int N, int C) {
  parallel_for(N, 1, C, [&](int begin, int end) {
    for (size_t n = begin; n < static_cast<size_t>(end); ++n)
      std::memcpy(to + n * to_stride, from + n * from_stride, C * sizeof(float));
  });
}

void copy_rows(float* to, const float* from, int N, int C) {
  parallel_for(N, 1, C, [&](int begin, int end) {
    const size_t at = static_cast<size_t>(begin) * C;
    std::memcpy(to + at, from + at, static_cast<size_t>(end - begin) * C * sizeof(float));
  });
}

void round_to(NumberType type, float* to, size_t first, const float* from, size_t n) {
  as_numbers(to, type, [&]<class Number>(Number* numbers) {
    parallel_floats(n, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) numbers[first + i] = rounded<Number>(from[i]);
    });
  });
}

void widen(NumberType type, float* x, size_t n) {
  as_numbers(x, type, [&]<class Number>(Number* numbers) {
    for (size_t i = 0; i < n; ++i) {  // from the front: float i ends before number i + 1 begins
      Number number;
      std::memcpy(&number, reinterpret_cast<const char*>(numbers + n + i), sizeof number);
      x[i] = widened(number);
    }
  });
}
