#pragma once
// AMX, the matrix unit of Intel's server processors since Sapphire Rapids. It has eight tile registers of 16 rows of 16
// words. A word is one float, or two bf16 numbers that are neighbors along k. One instruction adds a product of tiles:
//
//   C (16 rows, 16 columns of floats)  +=  A (16 rows, 16 words) · B (16 words, 16 columns)
//
// For each element it sums the products of the first numbers of all words, and separately those of the second. Then it
// adds both sums to C. So an element has the same bits in any row and column, and if A and B are exchanged. The
// processor rounds to nearest even and treats subnormal numbers as zero, C's too.

#include <cstddef>
#include <cstdint>

#if defined(__AMX_BF16__) && defined(__AVX512BF16__)
#include <immintrin.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace amx {

constexpr bool kBuilt = true;

// True if the system lets this process use tiles. Linux must be asked once, because tiles enlarge the state of a thread
// by 8 KB. An old kernel, an emulator or a container may refuse.
inline bool permitted() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}

// Configures the tiles of this thread: all have 16 rows of 64 bytes, and start with zeros. Gives them back at the end,
// so that the system does not save them when it switches threads.
class Tiles {
 public:
  Tiles() {
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } config;
    asm volatile("ldtilecfg %0" : : "m"(config));
  }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

// c (16·high, 16·wide), rows ldc apart, = A · B. A is packed in squares of 16 rows by 16 words: two squares, one below
// the other, then those of the next words. Words w of B's columns are at b[w·b_next]. `words` is a multiple of 16.
template <int high, int wide>
inline void multiply(float* c, size_t ldc, const float* a, const float* b, size_t b_next, int words) {
  constexpr size_t kSquare = 16 * 16;
  const size_t c_row = ldc * sizeof(float), b_row = b_next * sizeof(float);
  asm volatile("" : : : "memory");  // compilers do not know that loading a tile reads memory
  _tile_zero(0);
  if constexpr (wide > 1) _tile_zero(1);
  if constexpr (high > 1) _tile_zero(2);
  if constexpr (high > 1 && wide > 1) _tile_zero(3);
  for (int w = 0; w < words; w += 16, a += 2 * kSquare, b += 16 * b_next) {
    _tile_loadd(6, b, b_row);
    _tile_stream_loadd(4, a, 64);  // so that it leaves B in L1
    if constexpr (wide > 1) _tile_loadd(7, b + 16, b_row);
    if constexpr (high > 1) _tile_stream_loadd(5, a + kSquare, 64);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (wide > 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (high > 1) _tile_dpbf16ps(2, 5, 6);
    if constexpr (high > 1 && wide > 1) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, c_row);
  if constexpr (wide > 1) _tile_stored(1, c + 16, c_row);
  if constexpr (high > 1) _tile_stored(2, c + 16 * ldc, c_row);
  if constexpr (high > 1 && wide > 1) _tile_stored(3, c + 16 * ldc + 16, c_row);
}

// A product of one square of A and one of B, in steps of 16 words. It may not last while multiply() runs.
class Sum {
 public:
  Sum() { _tile_zero(0); }
  void add_product(const float* a, const float* b) {
    asm volatile("" : : : "memory");
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_dpbf16ps(0, 4, 6);
  }
  void store(void* c) const { _tile_stored(0, c, 64); }
};

// Multiplies tile registers and reads no memory. `kRepeated` operations per time.
constexpr int kRepeated = 4 * 2 * 16 * 16 * 32;
inline void repeat_products(int times) {
  const Tiles tiles;
  for (int i = 0; i < times; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
}

}  // namespace amx

#else

namespace amx {
constexpr bool kBuilt = false;
inline bool permitted() { return false; }

// Declared for code that is not compiled for this processor.
struct Tiles {};
template <int high, int wide>
void multiply(float* c, size_t ldc, const float* a, const float* b, size_t b_next, int words);
struct Sum {
  void add_product(const float* a, const float* b);
  void store(void* c) const;
};
constexpr int kRepeated = 0;
inline void repeat_products(int) {}
}  // namespace amx

#endif
