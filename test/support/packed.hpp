#pragma once
// Rows that hold several examples side by side.

#include <algorithm>
#include <vector>

// An example: tokens begin, ..., begin + length − 1 of a row.
struct Example {
  int row, begin, length;
};

// Rows of examples of these lengths. All rows are equally long.
struct PackedRows {
  int B, T;
  std::vector<Example> examples;
  std::vector<int> begins;  // (B,T)

  explicit PackedRows(const std::vector<std::vector<int>>& lengths) : B(int(lengths.size())), T(0) {
    for (int row = 0; row < B; ++row) {
      T = 0;
      for (const int length : lengths[row]) {
        examples.push_back({row, T, length});
        begins.insert(begins.end(), length, T);
        T += length;
      }
    }
  }

  // The same rows of x (B·T,width), without the others.
  template <class Number>
  std::vector<Number> of(const Example& e, const std::vector<Number>& x, int width = 1) const {
    const auto first = x.begin() + (size_t(e.row) * T + e.begin) * width;
    return {first, first + size_t(e.length) * width};
  }
};

// 200 tokens: examples that end before, at and after the borders of tiles of 64, and a last tile that is not full.
inline const PackedRows kPacked({{1, 63, 64, 65, 7}, {66, 130, 1, 3}});
