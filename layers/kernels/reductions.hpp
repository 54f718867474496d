#pragma once
// Sums over rows.

// Rows are summed in blocks, and then the blocks. So the order is the same for any number of threads, and the rows of a
// block can be summed in float.
constexpr int kRowBlock = 64;
inline int row_blocks(int N) { return (N + kRowBlock - 1) / kRowBlock; }

// out (C) += Σₙ x[n,:]; for biases and positions. Blocks are summed in float and added in double, so the rounding
// error is that of 64 additions, however large N is.
void add_column_sums(float* out, const float* x, int N, int C);
