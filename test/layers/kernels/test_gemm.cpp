#include "layers/kernels/gemm.hpp"

#include <array>
#include <bit>

#include "check.hpp"
#include "layers/kernels/elementwise.hpp"

namespace {

constexpr double kTolerance = 1e-6;  // measured: at most 2.7e-7

enum Variant { nt, nn, tn };
constexpr const char* kNames[] = {"nt", "nn", "tn"};

// A (M,K) and B (K,N) as the variant stores them.
MatrixView view_a(Variant v, const float* a, int M, int K) {
  return v == tn ? MatrixView{a, 1, size_t(M)} : MatrixView{a, size_t(K), 1};
}
MatrixView view_b(Variant v, const float* b, int N, int K) {
  return v == nt ? MatrixView{b, 1, size_t(K)} : MatrixView{b, size_t(N), 1};
}

// c (M,N), rows ldc apart, += A B
void add_product(double* c, size_t ldc, MatrixView a, MatrixView b, int M, int N, int K) {
  for (int i = 0; i < M; ++i)
    for (int k = 0; k < K; ++k) {
      const double factor = a.data[i * a.row + k * a.col];
      const float* from = b.data + k * b.row;
      double* to = c + i * ldc;
      for (int j = 0; j < N; ++j) to[j] += factor * double(from[j * b.col]);
    }
}

void gemm(Variant v, float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options) {
  (v == nt ? gemm_nt : v == nn ? gemm_nn : gemm_tn)(c, a, b, M, N, K, options);
}

// Numbers of both signs whose products do not cancel, so that even a single sum has a small relative error.
std::vector<float> operand(size_t n, uint64_t seed) { return random_floats(n, seed, .5f, 1); }

// Rounds to bfloat16, to nearest with ties to even.
std::vector<float> all_rounded(std::vector<float> x) {
  for (float& f : x) {
    const uint32_t bits = std::bit_cast<uint32_t>(f);
    f = std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
  }
  return x;
}

// The kernels of this processor. In the options of a product, `matmul` and `amx` choose one.
struct Kernel {
  const char* name;
  Matmul matmul;
  bool amx = true;
};
constexpr Kernel kFp32 = {"", Matmul::fp32}, kVectors = {" bf16", Matmul::bf16, false}, kAmx = {" amx", Matmul::bf16};

// The words of A and B, as views of the same sizes.
struct WordOperands {
  std::vector<float> a_words, b_words;
  MatrixView a, b;

  WordOperands(MatrixView from_a, MatrixView from_b, int M, int N, int K)
      : a_words(garbage(words_size(M, K))), b_words(garbage(words_size(N, K))),
        a(to_words(a_words.data(), from_a, M, K)),
        b(to_words(b_words.data(), {from_b.data, from_b.col, from_b.row}, N, K)) {
    std::swap(b.row, b.col);
  }
};

std::vector<Kernel> bf16_kernels() {
  if (!gemm_has_bf16()) return {};
  if (!gemm_has_amx()) return {kVectors};
  return {kVectors, kAmx};
}

std::vector<Kernel> kernels() {
  std::vector<Kernel> all = bf16_kernels();
  all.insert(all.begin(), kFp32);
  return all;
}

std::string sizes_of(int M, int N, int K) {
  return std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K);
}

void check_sizes(int M, int N, int K, Kernel kernel = kFp32) {
  std::vector<float> a = operand(size_t(M) * K, 1), b = operand(size_t(K) * N, 2);
  const bool rounds = kernel.matmul == Matmul::bf16 && gemm_has_bf16();
  const std::vector<float> read_a = rounds ? all_rounded(a) : a, read_b = rounds ? all_rounded(b) : b;
  const std::vector<float> bias = operand(N, 3), before = operand(size_t(M) * N, 4);
  for (const Variant v : {nt, nn, tn}) {
    const std::string sizes = sizes_of(M, N, K);
    std::vector<double> product(before.size());
    add_product(product.data(), N, view_a(v, read_a.data(), M, K), view_b(v, read_b.data(), N, K), M, N, K);
    for (const bool with_bias : {false, true})
      for (const bool accumulate : {false, true}) {
        std::vector<double> want = product;
        for (size_t i = 0; i < want.size(); ++i)
          want[i] += (with_bias ? double(bias[i % N]) : 0) + (accumulate ? double(before[i]) : 0);
        std::vector<float> c = accumulate ? before : garbage(before.size());
        gemm(v, c.data(), a.data(), b.data(), M, N, K,
             {.bias = with_bias ? bias.data() : nullptr, .accumulate = accumulate, .matmul = kernel.matmul,
              .amx = kernel.amx});
        check_close(std::string("gemm") + (rounds ? kernel.name : "") + "/" + kNames[v] + " " + sizes +
                        (accumulate ? " +=" : " =") + (with_bias ? " bias" : ""),
                    c, want, kTolerance);
      }
  }
}

}  // namespace

TEST_CASE("gemm in all variants and odd sizes", "[gemm]") {
  for (const int M : {1, 7, 17, 33})
    for (const int N : {1, 7, 17, 33})
      for (const int K : {1, 7, 17, 33}) check_sizes(M, N, K);
}

TEST_CASE("gemm at the edges of its tiles and blocks", "[gemm]") {
  for (const Kernel& kernel : kernels()) {
    for (const int M : {2, 3, 4, 5, 9}) check_sizes(M, 49, 270, kernel);
    for (const int N : {15, 16, 31, 47, 48, 49}) check_sizes(9, N, 40, kernel);
    check_sizes(8, 48, 256, kernel);
    check_sizes(65, 97, 513, kernel);
    check_sizes(300, 37, 19, kernel);
    check_sizes(5, 1577, 259, kernel);
    check_sizes(97, 131, 1100, kernel);
    check_sizes(150, 600, 520, kernel);  // two blocks of A and two slices of B
  }
}

TEST_CASE("gemm at the edges of AMX's tiles and blocks", "[gemm][bf16]") {
  if (!gemm_has_amx()) return skip_test("no AMX");
  for (const int M : {15, 16, 17, 32, 48, 80}) check_sizes(M, 33, 40, kAmx);
  for (const int N : {16, 17, 32, 33, 64, 65}) check_sizes(37, N, 40, kAmx);
  for (const int K : {2, 31, 32, 34, 64, 767, 768, 770, 1600}) {
    check_sizes(3, 19, K, kAmx);
    check_sizes(18, 35, K, kAmx);
  }
  check_sizes(700, 40, 780, kAmx);  // two blocks of A
}

TEST_CASE("gemm in bf16 and odd sizes", "[gemm][bf16]") {
  for (const int M : {1, 7, 33})
    for (const int N : {1, 7, 33})
      for (const int K : {1, 7, 17, 33})
        for (const Kernel& kernel : {kVectors, kAmx}) check_sizes(M, N, K, kernel);
  check_sizes(1100, 20, 1050, kVectors);  // two blocks of A
}

// Otherwise the tests of both kernels test one of them twice.
TEST_CASE("products in bf16 use AMX unless an option forbids it", "[gemm][bf16]") {
  if (!gemm_has_amx()) return skip_test("no AMX");
  for (const int M : {1, 20}) {
    const int N = 40, K = 300;
    const std::vector<float> a = operand(size_t(M) * K, 1), b = operand(size_t(N) * K, 2);
    std::vector<float> with = garbage(M * N), without = with;
    gemm_nt(with.data(), a.data(), b.data(), M, N, K, {.matmul = Matmul::bf16});
    gemm_nt(without.data(), a.data(), b.data(), M, N, K, {.matmul = Matmul::bf16, .amx = false});
    CHECK(with != without);  // they round at different places
  }
}

TEST_CASE("products in bf16 count subnormal numbers as zero", "[gemm][bf16]") {
  const int M = 20, N = 35, K = 40;
  for (const Kernel& kernel : bf16_kernels())
    for (const auto& [x, y] : {std::pair(1e-39f, 1.f), {1.f, 1e-39f}, {1e-20f, 1e-20f}}) {
      const std::vector<float> a(M * K, x), b(N * K, y);
      std::vector<float> c = garbage(M * N);
      gemm_nt(c.data(), a.data(), b.data(), M, N, K, {.matmul = kernel.matmul, .amx = kernel.amx});
      CHECK(c == std::vector<float>(M * N));
    }
}

TEST_CASE("gemm on one thread reads and writes inside wider matrices", "[gemm]") {
  // C, A and B begin at column 3 of matrices that are eleven columns wider.
  for (const auto& [M, N, K] : {std::array{1, 1, 1}, {7, 17, 33}, {64, 64, 64}, {130, 150, 300}})
    for (const Variant v : {nt, nn, tn})
      for (const bool accumulate : {false, true}) {
        const int a_width = 11 + (v == tn ? M : K), b_width = 11 + (v == nt ? K : N), ldc = 11 + N;
        const std::vector<float> a = random_floats(size_t(a_width) * (v == tn ? K : M), 1);
        const std::vector<float> b = random_floats(size_t(b_width) * (v == nt ? N : K), 2);
        const std::vector<float> before = random_floats(size_t(ldc) * M, 3);
        const MatrixView av = view_a(v, a.data() + 3, a_width, a_width);
        const MatrixView bv = view_b(v, b.data() + 3, b_width, b_width);
        std::vector<float> c = before;
        gemm_serial({c.data() + 3, size_t(ldc)}, av, bv, M, N, K, accumulate);
        std::vector<double> want = widen(before);
        for (size_t i = 0; i < want.size(); ++i) {
          const bool inside = int(i % ldc) >= 3 && int(i % ldc) < 3 + N;
          if (!inside) REQUIRE(c[i] == before[i]);
          if (inside && !accumulate) want[i] = 0;
        }
        add_product(want.data() + 3, ldc, av, bv, M, N, K);
        check_close(std::string("gemm/serial ") + kNames[v] + " " + std::to_string(M), c, want, kTolerance);
      }
}

TEST_CASE("a product of words is that of numbers rounded to bf16", "[gemm][bf16]") {
  for (const int M : {1, 5, 64, 130})
    for (const int N : {1, 16, 37, 64})
      for (const int K : {1, 2, 7, 64, 150, 1100})
        for (const Variant v : {nt, nn, tn}) {
          const std::vector<float> a = operand(size_t(M) * K, 1), b = operand(size_t(K) * N, 2);
          const std::vector<float> read_a = gemm_has_bf16() ? all_rounded(a) : a;
          const std::vector<float> read_b = gemm_has_bf16() ? all_rounded(b) : b;
          const std::vector<float> before = operand(size_t(M) * N, 3);
          std::vector<double> want = widen(before);
          add_product(want.data(), N, view_a(v, read_a.data(), M, K), view_b(v, read_b.data(), N, K), M, N, K);
          const WordOperands words(view_a(v, a.data(), M, K), view_b(v, b.data(), N, K), M, N, K);
          std::vector<float> c = before;
          gemm_words({c.data(), size_t(N)}, words.a, words.b, M, N, K, true);
          check_close(std::string("gemm of words/") + kNames[v] + " " + sizes_of(M, N, K), c, want, kTolerance);
        }
}

// If A has a zero triangle, the product must equal the whole product to the bit. Numbers of C that are not needed do
// not count.
TEST_CASE("gemm leaves out what a triangle does not need", "[gemm]") {
  for (const auto& [M, N, K] : {std::array{64, 64, 64}, {5, 30, 7}, {37, 70, 41}, {70, 40, 300}, {130, 24, 520}}) {
    const std::vector<float> full = random_floats(size_t(M) * K, 1), b = random_floats(size_t(K) * N, 2);
    const std::vector<float> before = random_floats(size_t(M) * N, 3);
    for (const Variant v : {nt, nn, tn})
      for (const Triangle::Part part : {Triangle::c_upper, Triangle::a_lower, Triangle::a_upper})
        for (const int diagonal : {0, 3, 64})
          for (const auto& [accumulate, words] :
               {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
            std::vector<float> a = full, whole = before, c = before;
            MatrixView av = view_a(v, a.data(), M, K), bv = view_b(v, b.data(), N, K);
            for (int i = 0; i < M; ++i)
              for (int k = 0; k < K; ++k)
                if (part == Triangle::a_lower ? k > i + diagonal : part == Triangle::a_upper && k < i - diagonal)
                  a[i * av.row + k * av.col] = 0;
            const WordOperands rounded(av, bv, M, N, K);
            if (words) av = rounded.a, bv = rounded.b;
            const auto multiply = words ? gemm_words : gemm_serial;
            multiply({whole.data(), size_t(N)}, av, bv, M, N, K, accumulate, {});
            multiply({c.data(), size_t(N)}, av, bv, M, N, K, accumulate, {part, diagonal});
            int wrong = 0;
            for (int i = 0; i < M; ++i)
              for (int j = 0; j < N; ++j)
                if (part != Triangle::c_upper || j >= i - diagonal) wrong += c[i * N + j] != whole[i * N + j];
            INFO(sizes_of(M, N, K) << ", " << kNames[v] << ", diagonal " << diagonal << (words ? ", words" : ""));
            CHECK(wrong == 0);
          }
  }
}

TEST_CASE("gemm is the same for any number of threads", "[gemm]") {
  for (const auto& [M, N, K] : {std::array{100, 70, 300}, {485, 40, 30}, {3, 3100, 300}, {40, 40, 1600}})
    for (const Variant v : {nt, nn, tn}) {
      const std::vector<float> a = operand(size_t(M) * K, 1), b = operand(size_t(K) * N, 2);
      for (const Kernel& kernel : kernels())
        check_same_for_all_threads([&, M = M, N = N, K = K] {
          std::vector<float> c = random_floats(size_t(M) * N, 3);
          gemm(v, c.data(), a.data(), b.data(), M, N, K,
               {.accumulate = true, .matmul = kernel.matmul, .amx = kernel.amx});
          return c;
        });
    }
}

// Therefore text generated token by token has the logits of the whole text, bit for bit.
TEST_CASE("a row of a product has the same bits alone and among others", "[gemm]") {
  const int M = 40, N = 75, K = 1600;
  const std::vector<float> a = operand(M * K, 1), b = operand(N * K, 2), bias = operand(N, 3);
  for (const Kernel& kernel : kernels()) {
    const GemmOptions options{.bias = bias.data(), .matmul = kernel.matmul, .amx = kernel.amx};
    std::vector<float> all = garbage(M * N);
    gemm_nt(all.data(), a.data(), b.data(), M, N, K, options);
    for (const int rows : {1, 2, 3, 4, 5, 16, 17, 33}) {
      std::vector<float> some = garbage(rows * N);
      gemm_nt(some.data(), a.data() + 7 * K, b.data(), rows, N, K, options);
      INFO(rows << " rows" << kernel.name);
      REQUIRE(std::equal(some.begin(), some.end(), all.begin() + 7 * N));
    }
  }
}

TEST_CASE("a NaN stays in its row of a product", "[gemm]") {
  const int N = 35, K = 9;
  for (const Kernel& kernel : kernels())
    for (const int M : {15, 20}) {
      std::vector<float> a = random_floats(M * K, 1), c = garbage(M * N);
      const std::vector<float> b = random_floats(N * K, 2);
      a[7 * K + 4] = garbage(1)[0];
      gemm_nt(c.data(), a.data(), b.data(), M, N, K, {.matmul = kernel.matmul, .amx = kernel.amx});
      for (int i = 0; i < M * N; ++i) REQUIRE(std::isnan(c[i]) == (i / N == 7));
    }
}

TEST_CASE("a product with a matrix of 16-bit numbers is that with the same numbers as floats, to the bit", "[gemm]") {
  for (const NumberType type : {NumberType::bf16, NumberType::fp16})
    for (const auto& [M, N, K] : {std::array{1, 40, 70}, {3, 17, 300}, {4, 33, 1}, {9, 96, 40}, {9, 100, 37},
                                  {16, 33, 1600}, {70, 130, 600}, {200, 64, 1100}}) {
      const std::vector<float> a = operand(size_t(M) * K, 1), bias = operand(N, 3);
      std::vector<float> b = operand(size_t(K) * N, 2), packed(floats_of(type, b.size()));
      round_to(type, packed.data(), 0, b.data(), b.size());
      as_numbers(packed.data(), type, [&]<class Number>(const Number*) {
        for (float& x : b) x = widened(rounded<Number>(x));
      });
      for (const Variant v : {nt, nn, tn})
        for (const Kernel& kernel : kernels()) {
          GemmOptions options{.bias = bias.data(), .matmul = kernel.matmul, .amx = kernel.amx};
          std::vector<float> want(size_t(M) * N), c = garbage(want.size());
          gemm(v, want.data(), a.data(), b.data(), M, N, K, options);
          options.b = type;
          gemm(v, c.data(), a.data(), packed.data(), M, N, K, options);
          INFO(kNames[v] << " " << M << " x " << N << " x " << K << kernel.name);
          CHECK(c == want);
        }
    }
}
