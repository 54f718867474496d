#pragma once
// Matrix products, C (M,N) = A · B over an inner dimension K. A linear layer needs three of them:
//
//   gemm_nt   A (M,K)  B (N,K)   C = A Bᵀ     y  = x wᵀ         rows of x times rows of w
//   gemm_nn   A (M,K)  B (K,N)   C = A B      dx = dy w
//   gemm_tn   A (K,M)  B (K,N)   C = Aᵀ B     dw += dyᵀ x
//
// All matrices are row-major and dense. `accumulate` adds to C instead of writing it; `bias` (N) is added to
// every row. Each element is summed over k in a fixed order for any number of threads.
//
// With `bf16`, both operands are rounded to bfloat16 (8 bits of precision) as they are read; products and sums stay
// float, and subnormal numbers count as zero. If gemm_has_bf16() is false, the option does nothing. If gemm_has_amx(),
// these products use AMX, which adds in another order. That order depends on K alone, too. `amx = false` forbids it:
// tests and benchmarks compare.
//
// `b` says what B consists of. The result is that of the same numbers as floats, to the bit.

#include <cstddef>

#include "numbers.hpp"

enum class Matmul { fp32, bf16 };

struct GemmOptions {
  const float* bias = nullptr;
  bool accumulate = false;
  Matmul matmul = Matmul::fp32;
  NumberType b = NumberType::fp32;
  bool amx = true;
};

void gemm_nt(float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options = {});
void gemm_nn(float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options = {});
void gemm_tn(float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options = {});

// A matrix, its transpose, or some columns of a wider matrix. Element (i, j) is at data[i·row + j·col]. Row or col is
// 1.
struct MatrixView {
  const float* data;
  size_t row, col;
};

// Where a product is written: element (i, j) lies at data[i·row + j].
struct MatrixRows {
  float* data;
  size_t row;
};

// The part of a product that a causal mask keeps. Skips whole vectors and register tiles of the rest.
//
//   c_upper   only C[i][j] with j ≥ i - diagonal is needed; the others are undefined
//   a_lower   A[i][k] is zero if k > i + diagonal
//   a_upper   A[i][k] is zero if k < i - diagonal: the transpose of a_lower
struct Triangle {
  enum Part { whole, c_upper, a_lower, a_upper } part = whole;
  int diagonal = 0;
};

// The same product on one thread, for use inside a parallel loop: C (M,N), A (M,K), B (K,N).
void gemm_serial(MatrixRows c, MatrixView a, MatrixView b, int M, int N, int K, bool accumulate,
                 Triangle triangle = {});

// The same with A and B in words, which were rounded before, for several products. A word takes the place of a float
// and holds two bf16 numbers, neighbors along k.
void gemm_words(MatrixRows c, MatrixView a, MatrixView b, int M, int N, int K, bool accumulate, Triangle triangle = {});

// Returns the words of `lines` lines, the rows of A or the columns of B. Number k of line i is at data[i·row + k·col].
// Writes them to `to`, which has room for words_size() floats.
MatrixView to_words(float* to, MatrixView from, int lines, int k);
size_t words_size(int lines, int k);

// to (columns, rows) = fromᵀ, with row strides `to_row` and `from_row`. Fills the last vector of each row of `to` with
// zeros.
void transpose(float* to, size_t to_row, const float* from, size_t from_row, int rows, int columns);

// True if the processor that the program is built for multiplies bf16 numbers.
bool gemm_has_bf16();

// True if products of words are the fastest in bf16. AMX reads words in another order, and a processor that has it
// takes longer for these than for floats.
bool gemm_prefers_words();
inline bool multiplies_words(Matmul matmul) { return matmul == Matmul::bf16 && gemm_prefers_words(); }

// True if products in bf16 use AMX: the processor that the program is built for has it, and the system permits it.
bool gemm_has_amx();
