// Matrix products by the scheme of BLIS (Van Zee & van de Geijn 2015). A block of A and a slice of B are packed so that
// the innermost loop, the register tile, reads both from consecutive memory and only multiplies and adds:
//
//   for first in K by 4 KC              how deep a slice is
//     for jc in N by NC                 a slice of B's columns: packed into panels at most NR wide
//       for ic in M by MC               a block of A's rows ...
//         for pc in 4 KC by KC          ... and of the inner dimension: packed into panels at most MR high
//           for each panel of B         (stays in L1)
//             for each panel of A       (streams from L2)
//               tile: MR × NR sums in registers over KC
//
// A slice fills half of L2, which sets NC. It is 4 KC deep, so that the block of C stays in cache while it is added to.
// If A must be packed, the slice is one KC deep and wider, so that A is packed less often.
//
// An operand is not packed if its layout already suits the tile: A if its rows run along k; B if its columns are
// adjacent and A has too few rows to repay packing; and anything that fits in L1.
//
// In bf16, A and B swap their places, because the register tile takes so little time: a large block of A is packed
// once, and a slice of B is a single panel, which is read right after it was packed. With AMX, A stays in L2 and the
// panel in L1. Otherwise A stays in L3, of which a tile needs little more than a byte per cycle, and the panel in L2;
// both are deep, because C would be read again for each slice.
//
// Threads share nothing: each computes one rectangle of C and packs what it needs. So an operand is packed once for
// each rectangle that reads it, but the only barrier is at the end.

#include "gemm.hpp"

#include <algorithm>
#include <type_traits>

#include "amx.hpp"
#include "buffer.hpp"
#include "packing.hpp"
#include "parallel.hpp"
#include "register_tiles.hpp"
#include "simd.hpp"

namespace {

struct Product {
  float* c;
  size_t ldc;
  MatrixView a, b;
  int M, N, K;
  GemmOptions options;
  Triangle triangle = {};
  int first = 0;  // the column of B that is column 0 of the product

  // Element (k, j) of B, which consists of `Number`s.
  template <class Number>
  const Number* b_at(int k, int j) const {
    return reinterpret_cast<const Number*>(b.data) + k * b.row + (first + j) * b.col;
  }

  // Rows [begin, end) of the product.
  Product rows(int begin, int end) const {
    Product part = *this;
    part.c += begin * ldc;
    part.a.data += begin * a.row;
    part.M = end - begin;
    return part;
  }
};

// Returns the rows of a panel, as even as possible: 9 rows are 5 + 4, not 8 + 1. For AMX, squares are whole: 48 rows
// are 32 + 16, three squares, not 24 + 24, which would take four.
template <class Format>
int panel_height(int rows) {
  const int panels = (rows + Format::MR - 1) / Format::MR;
  return round_up((rows + panels - 1) / panels, Format::kSquare);
}

// Returns the columns of the next panel if `left` are left. Four vectors are 2 + 2, not 3 + 1, because a tile of one
// vector has too few sums to keep the processor busy.
template <class Format>
int panel_width(int left) {
  constexpr int NV = Format::NV;
  const int vectors = (left + W - 1) / W;
  return std::min(left, W * (vectors == NV + 1 ? (NV + 1) / 2 : NV));
}

// Returns the end of part q of n parts of `size`, at a multiple of `step`.
int part_end(int size, int step, int q, int n) {
  const long long steps = (size + step - 1) / step;
  return static_cast<int>(std::min<long long>(size, steps * q / n * step));
}

// Returns the rows of a block of A. In bf16, a smaller K allows more of them.
template <class Format>
int rows_of_block(int K) {
  if (Format::kSteps == 1) return Format::kBlock / Format::KC;
  return Format::kBlock / std::min(Format::KC, words_of<Format>(K)) / Format::MR * Format::MR;
}

int whole_vectors(int n) { return round_up(n, W); }

// Room for a slice of B and then a block of A. Every thread has its own, of which only the part that its products fill
// takes memory.
template <class Format>
float* workspace() {
  thread_local const Buffer work = reserve(Format::kSlice + Format::kBlock);
  return work.get();
}

// A matrix product, with the choice which operands are packed.
template <class Format, class Number>
struct Blocks {
  static constexpr bool kUnpacked = Format::kSteps == 1;  // otherwise it has to be rounded first
  static constexpr bool kFloats = std::is_same_v<Number, float>;   // other numbers of B become floats first
  static constexpr int MR = Format::MR, NV = Format::NV, NR = NV * W, kSlice = Format::kSlice;
  static constexpr int kDepth = Format::KC * Format::kSteps;
  const Product& p;
  const int MC = rows_of_block<Format>(p.K);
  float* const b_slice = workspace<Format>();
  float* const a_block = b_slice + kSlice;
  const bool pack_a = !kUnpacked || (p.a.col != 1 && !near(p.a.col));
  const bool few = p.M <= 8 * MR && p.K <= 8 * MR;  // too few to repay packing B
  const bool pack_b = !kUnpacked || !kFloats || p.b.col != 1 || p.N % W || !(few || near(p.b.row));
  const decltype(kTiles<Format, true>)& tiles = p.a.col != 1 || pack_a ? kTiles<Format, true> : kTiles<Format, false>;

  void run() const {
    const int deep = pack_a ? kDepth : 4 * kDepth;
    for (int first = 0; first < p.K; first += deep) {
      const int end = std::min(p.K, first + deep);
      const int nc = std::max(1, kSlice / words_of<Format>(end - first) / NR) * NR;
      for (int jc = 0, columns; jc < p.N; jc += columns) {
        columns = nc == NR ? panel_width<Format>(p.N - jc) : std::min(nc, p.N - jc);
        const auto slice = [&](int pc) { return b_slice + words_of<Format>(pc - first) * whole_vectors(columns); };
        for (int pc = first; pack_b && pc < end; pc += kDepth) pack_slice(slice(pc), jc, columns, pc);
        for (int ic = 0; ic < p.M; ic += MC)
          for (int pc = first; pc < end; pc += kDepth) run_block(ic, jc, columns, pc, slice(pc));
      }
    }
  }

  // True if K lines at this distance fit together in half of L1, 4096 words.
  bool near(size_t line) const { return line * p.K <= 4096; }
  int depth(int pc) const { return std::min(kDepth, p.K - pc); }
  const float* a_at(int i, int k) const { return p.a.data + i * p.a.row + k * p.a.col; }

  // Calls f(k, steps) for all k < depth. If lines are adjacent, `steps` is small, so that the memory that all panels
  // read stays in L1.
  template <class F>
  static void in_strips(size_t line, int depth, F f) {
    const int strip = line == 1 ? kStrip * Format::kSteps : depth;
    for (int k = 0; k < depth; k += strip) f(k, std::min(strip, depth - k));
  }

  // Packs columns [jc, jc + columns) of B, panel after panel.
  void pack_slice(float* to, int jc, int columns, int pc) const {
    in_strips(p.b.col, depth(pc), [&](int k, int steps) {
      for (int j = 0, width; j < columns; j += width) {
        width = panel_width<Format>(columns - j);
        const int panel = whole_vectors(width);
        pack<Format, W>(to + j * words_of<Format>(depth(pc)) + words_of<Format>(k) * panel, panel,
                        p.b_at<Number>(pc + k, jc + j), p.b.col, p.b.row, width, steps);
      }
    });
  }

  // Computes rows [ic, ic + MC) by columns [jc, jc + columns) over one KC of the inner dimension.
  void run_block(int ic, int jc, int columns, int pc, const float* slice) const {
    const int rows = std::min(MC, p.M - ic), height = panel_height<Format>(rows), words = words_of<Format>(depth(pc));
    const auto a_panel = [&](int i) { return a_block + i / height * MR * words; };
    if (pack_a && (jc == 0 || p.M > MC))  // otherwise A is still packed
      in_strips(p.a.row, depth(pc), [&](int k, int steps) {
        for (int i = 0; i < rows; i += height)
          pack_rows<Format>(a_panel(i) + words_of<Format>(k) * MR, a_at(ic + i, pc + k), p.a.row, p.a.col,
                            std::min(height, rows - i), steps);
      });
    for (int j = 0, width; j < columns; j += width) {
      width = panel_width<Format>(columns - j);
      const float* bias = pc == 0 && p.options.bias ? p.options.bias + jc + j : nullptr;
      for (int i = 0; i < rows; i += height) {
        const int high = std::min(height, rows - i);
        const Needed need = needed(ic + i, high, jc + j, pc, words);
        if (need.skipped >= width) continue;
        const size_t b_next = pack_b ? whole_vectors(width) : p.b.row;
        const float* b = pack_b ? slice + j * words : p.b_at<float>(pc, jc + j);
        const Source source{(pack_a ? a_panel(i) : a_at(ic + i, pc)) + need.first * (pack_a ? MR : p.a.col),
                            b + need.first * b_next + need.skipped,
                            pack_a ? MR : p.a.row * p.a.col, b_next};  // one of row and col is 1
        const Target target{p.c + (ic + i) * p.ldc + jc + j + need.skipped, p.ldc, bias ? bias + need.skipped : nullptr,
                            pc > 0 || p.options.accumulate, high, width - need.skipped};
        tiles[(high - 1) / Format::kSquare * NV + (target.columns - 1) / W](target, source, need.end - need.first);
      }
    }
  }

  // What a tile at row i, column j must compute: all columns except the first `skipped` (whole vectors), from words
  // [first, end).
  struct Needed {
    int skipped, first, end;
  };
  Needed needed(int i, int high, int j, int pc, int words) const {
    const int diagonal = p.triangle.diagonal;
    switch (p.triangle.part) {
      case Triangle::c_upper: return {std::max(0, i - diagonal - j) / W * W, 0, words};
      case Triangle::a_lower: {
        const int end = (i + high + diagonal + Format::kOperand - 1) / Format::kOperand;
        return {0, 0, std::clamp(end - pc, 0, words)};
      }
      case Triangle::a_upper: return {0, std::clamp((i - diagonal) / Format::kOperand - pc, 0, words), words};
      default: return {0, 0, words};
    }
  }
};

// With few rows of A, as in generation token by token, B is read once at the speed of memory and nothing is packed. W
// lines of B are transposed in registers and used immediately. Sums have the same order as in a tile.
constexpr int kFewRows = 4;

template <class Format, class Number, int M>
void multiply_few_rows(const Product& p) {
  using Lines = LinesOf<Format, Number>;
  constexpr int kDepth = Format::KC * Format::kSteps, kWords = W * Lines::kNumbers;
  for (int j = 0; j < p.N; j += W) {
    const int lines = std::min(W, p.N - j);
    for (int pc = 0; pc < p.K; pc += kDepth) {
      const int end = std::min(p.K, pc + kDepth);
      Vec sum[M] = {};
      for (int k = pc; k < end; k += kWords) {
        const Number* b = p.b_at<Number>(k, j);
        Vec v[W];
#pragma GCC unroll 16
        for (int q = 0; q < W; ++q) {
          __builtin_prefetch(b + (q + W) * p.b.col, 0, 2);  // the next W lines into L2, to keep memory busy
          v[q] = q < lines ? Lines::along(b + q * p.b.col, end - k) : Vec{};
        }
        simd::turn(v);
        const int words = (end - k + Lines::kNumbers - 1) / Lines::kNumbers;
        for (int i = 0; i < M; ++i) {
          const typename Lines::Row a(p.a.data + i * p.a.row + k, end - k);
#pragma GCC unroll 16
          for (int w = 0; w < W; ++w)
            if (w < words) sum[i] = a.add(sum[i], w, v[w]);
        }
      }
      for (int i = 0; i < M; ++i)
        finish(sum[i], p.c + i * p.ldc + j, pc == 0 && p.options.bias ? p.options.bias + j : nullptr,
               pc > 0 || p.options.accumulate, lines);
    }
  }
}

// Multiplies one block of A after the other. They are as even as possible.
template <class Format, class Number>
void multiply_by_blocks(const Product& p) {
  const int step = std::min(Format::MR, W), most = rows_of_block<Format>(p.K), blocks = (p.M + most - 1) / most;
  for (int q = 0; q < blocks; ++q)
    Blocks<Format, Number>{p.rows(part_end(p.M, step, q, blocks), part_end(p.M, step, q + 1, blocks))}.run();
}

// Chooses the loops.
template <class Format, class Number>
void multiply(const Product& p) {
  constexpr void (*few[kFewRows])(const Product&) = {
      multiply_few_rows<Format, Number, 1>, multiply_few_rows<Format, Number, 2>, multiply_few_rows<Format, Number, 3>,
      multiply_few_rows<Format, Number, 4>};
  if (p.M <= kFewRows && p.a.col == 1 && p.b.row == 1) return few[p.M - 1](p);
  Format::kSteps == 1 ? Blocks<Format, Number>{p}.run() : multiply_by_blocks<Format, Number>(p);
}

// The same with AMX for up to W rows. It computes Cᵀ = Bᵀ Aᵀ: the lines of B are rows already, so only A and C are
// transposed.
template <class Number>
void multiply_few_rows_in_squares(const Product& p) {
  constexpr int kDepth = Amx::KC * Amx::kSteps, kWords = W * Amx::kSteps;
  float* const a = workspace<Amx>();
  for (int pc = 0; pc < p.K; pc += kDepth) {
    const int depth = std::min(kDepth, p.K - pc);
    pack<Amx, W>(a, W, p.a.data + pc, p.a.row, 1, p.M, depth);
    for (int j = 0; j < p.N; j += W) {
      const int lines = std::min(W, p.N - j);
      amx::Sum sum;
      for (int k = 0; k < depth; k += kWords) {
        const Number* b = p.b_at<Number>(pc + k, j);
        alignas(64) float square[W * W];
#pragma GCC unroll 16
        for (int q = 0; q < W; ++q) {
          __builtin_prefetch(b + (q + W) * p.b.col, 0, 2);
          simd::store(square + q * W, q < lines ? Amx::along(b + q * p.b.col, depth - k) : Vec{});
        }
        sum.add_product(square, a + k / Amx::kSteps * W);
      }
      Vec v[W];
      sum.store(v);
      simd::turn(v);
      for (int i = 0; i < p.M; ++i)
        finish(v[i], p.c + i * p.ldc + j, pc == 0 && p.options.bias ? p.options.bias + j : nullptr,
               pc > 0 || p.options.accumulate, lines);
    }
  }
}
template <class Number>
void multiply_in_squares(const Product& p) {
  const amx::Tiles tiles;
  if (p.M <= W && p.a.col == 1 && p.b.row == 1) return multiply_few_rows_in_squares<Number>(p);
  multiply_by_blocks<Amx, Number>(p);
}

// Chooses the format of the words, and what B consists of. AMX rounds sums at other places than vectors do, so the
// choice must not depend on the sizes of a product.
void multiply_on_one_thread(const Product& p) {
  as_numbers(p.b.data, p.options.b, [&]<class Number>(const Number*) {
    if (p.options.matmul == Matmul::fp32) return multiply<Fp32, Number>(p);
    if constexpr (amx::kBuilt)
      if (p.options.amx && gemm_has_amx()) return multiply_in_squares<Number>(p);
    multiply<Bf16, Number>(p);
  });
}

// ---- sharing among threads -------------------------------------------------------------------------------

// Divides C into `down` × `across` rectangles, one per thread. The rows of A are packed `across` times and the columns
// of B `down` times; the grid keeps that total small.
struct Grid {
  int down, across;
};
Grid grid_of(int M, int N, int threads) {
  Grid best{1, threads};
  double least = 0;
  for (int down = 1; down <= threads; ++down) {
    if (threads % down) continue;
    const int across = threads / down;
    const double packed = static_cast<double>(M) * across + static_cast<double>(N) * down;
    if (down == 1 || packed < least) {
      best = {down, across};
      least = packed;
    }
  }
  return best;
}

void multiply_on_all_threads(const Product& p) {
  const bool share = static_cast<double>(p.M) * p.N * p.K >= 4. * kWorthSharing;
  const int threads = share ? max_threads() : 1;
  const Grid grid = grid_of(p.M, p.N, threads);
  parallel_equal_tasks(threads, [&](int thread) {
    const int row = thread / grid.across, column = thread % grid.across;
    const int i0 = part_end(p.M, 1, row, grid.down), i1 = part_end(p.M, 1, row + 1, grid.down);
    const int j0 = part_end(p.N, W, column, grid.across), j1 = part_end(p.N, W, column + 1, grid.across);
    if (i0 == i1 || j0 == j1) return;
    Product part = p.rows(i0, i1);
    part.c += j0;
    part.first = j0;
    part.N = j1 - j0;
    if (part.options.bias) part.options.bias += j0;
    multiply_on_one_thread(part);
  });
}

size_t wide(int n) { return static_cast<size_t>(n); }

}  // namespace

void gemm_nt(float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options) {
  multiply_on_all_threads({c, wide(N), {a, wide(K), 1}, {b, 1, wide(K)}, M, N, K, options});
}

void gemm_nn(float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options) {
  multiply_on_all_threads({c, wide(N), {a, wide(K), 1}, {b, wide(N), 1}, M, N, K, options});
}

void gemm_tn(float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options) {
  multiply_on_all_threads({c, wide(N), {a, 1, wide(M)}, {b, wide(N), 1}, M, N, K, options});
}

void gemm_serial(MatrixRows c, MatrixView a, MatrixView b, int M, int N, int K, bool accumulate, Triangle triangle) {
  multiply_on_one_thread({c.data, c.row, a, b, M, N, K, {.accumulate = accumulate}, triangle});
}

void gemm_words(MatrixRows c, MatrixView a, MatrixView b, int M, int N, int K, bool accumulate, Triangle triangle) {
  multiply<Words, float>({c.data, c.row, a, b, M, N, words_of<Bf16>(K), {.accumulate = accumulate}, triangle});
}

size_t words_size(int lines, int k) { return static_cast<size_t>(whole_vectors(lines)) * words_of<Bf16>(k); }

MatrixView to_words(float* to, MatrixView from, int lines, int k) {
  const size_t words = words_of<Bf16>(k);
  const int width = whole_vectors(lines);
  if (from.col != 1) {
    pack<Bf16, W>(to, width, from.data, from.row, from.col, lines, k);
    return {to, 1, size_t(width)};
  }
  round_rows<Bf16>(to, words, from.data, from.row, lines, k);
  return {to, words, 1};
}

void transpose(float* to, size_t to_row, const float* from, size_t from_row, int rows, int columns) {
  for (int i = 0; i < rows; i += W)
    for (int j = 0; j < columns; j += W) {
      Vec v[W];
#pragma GCC unroll 16
      for (int q = 0; q < W; ++q)
        v[q] = i + q < rows ? simd::load(from + (i + q) * from_row + j, std::min(W, columns - j)) : Vec{};
      simd::turn(v);
#pragma GCC unroll 16
      for (int q = 0; q < W; ++q)
        if (j + q < columns) simd::store(to + (j + q) * to_row + i, v[q]);
    }
}

bool gemm_has_bf16() { return simd::kHasBf16; }

bool gemm_prefers_words() { return gemm_has_bf16() && !gemm_has_amx(); }

bool gemm_has_amx() { return amx::permitted(); }
