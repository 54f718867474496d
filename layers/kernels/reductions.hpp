#pragma once
// Sums over rows.

// Sums are taken over blocks of rows, then over the blocks. So their order is the same for any number of threads, and
// float is precise enough within a block.
constexpr int kRowBlock = 64;
inline int row_blocks(int N) { return (N + kRowBlock - 1) / kRowBlock; }

// out (C) += Σₙ x[n,:]; for biases and positions. Sums within blocks are float, sums over blocks are double. So the
// rounding error is as small as after 64 additions, for any N.
void add_column_sums(float* out, const float* x, int N, int C);
