#include "layers/gemm.hpp"

#include <array>

#include "check.hpp"

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
    for (int k = 0; k < K; ++k)
      for (int j = 0; j < N; ++j)
        c[i * ldc + j] += double(a.data[i * a.row + k * a.col]) * double(b.data[k * b.row + j * b.col]);
}

void gemm(Variant v, float* c, const float* a, const float* b, int M, int N, int K, GemmOptions options) {
  (v == nt ? gemm_nt : v == nn ? gemm_nn : gemm_tn)(c, a, b, M, N, K, options);
}

// Of both signs, but their products do not cancel to nothing, so that a single sum can be held to its own
// size.
std::vector<float> operand(size_t n, uint64_t seed) { return random_floats(n, seed, .5f, 1); }

void check_sizes(int M, int N, int K) {
  const std::vector<float> a = operand(size_t(M) * K, 1), b = operand(size_t(K) * N, 2);
  const std::vector<float> bias = operand(N, 3), before = operand(size_t(M) * N, 4);
  for (const Variant v : {nt, nn, tn}) {
    const std::string sizes = std::to_string(M) + "x" + std::to_string(N) + "x" + std::to_string(K);
    std::vector<double> product(before.size());
    add_product(product.data(), N, view_a(v, a.data(), M, K), view_b(v, b.data(), N, K), M, N, K);
    for (const bool with_bias : {false, true})
      for (const bool accumulate : {false, true}) {
        std::vector<double> want = product;
        for (size_t i = 0; i < want.size(); ++i)
          want[i] += (with_bias ? double(bias[i % N]) : 0) + (accumulate ? double(before[i]) : 0);
        std::vector<float> c = accumulate ? before : garbage(before.size());
        gemm(v, c.data(), a.data(), b.data(), M, N, K, {with_bias ? bias.data() : nullptr, accumulate});
        check_close(std::string("gemm/") + kNames[v] + " " + sizes + (accumulate ? " +=" : " =") +
                        (with_bias ? " bias" : ""),
                    c, want, kTolerance);
      }
  }
}

}  // namespace

TEST_CASE("gemm in all its forms and odd sizes", "[gemm]") {
  for (const int M : {1, 7, 17, 33})
    for (const int N : {1, 7, 17, 33})
      for (const int K : {1, 7, 17, 33}) check_sizes(M, N, K);
}

TEST_CASE("gemm across the borders of its blocks", "[gemm]") {
  check_sizes(12, 32, 256);
  check_sizes(13, 31, 257);
  check_sizes(485, 37, 19);
  check_sizes(5, 3077, 259);
  check_sizes(97, 131, 600);
}

TEST_CASE("gemm on one thread reads and writes inside wider matrices", "[gemm]") {
  // C, A and B are the columns 3, 4, ... of matrices eleven columns wider.
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
        gemm_serial(c.data() + 3, ldc, av, bv, M, N, K, accumulate);
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

TEST_CASE("gemm is the same for any number of threads", "[gemm]") {
  for (const auto& [M, N, K] : {std::array{100, 70, 300}, {485, 40, 30}, {3, 3100, 300}})
    for (const Variant v : {nt, nn, tn}) {
      const std::vector<float> a = operand(size_t(M) * K, 1), b = operand(size_t(K) * N, 2);
      check_same_for_all_threads([&, M = M, N = N, K = K] {
        std::vector<float> c = random_floats(size_t(M) * N, 3);
        gemm(v, c.data(), a.data(), b.data(), M, N, K, {nullptr, true});
        return c;
      });
    }
}

TEST_CASE("a NaN stays in its row of a product", "[gemm]") {
  const int M = 15, N = 35, K = 9;
  std::vector<float> a = random_floats(M * K, 1), c = garbage(M * N);
  const std::vector<float> b = random_floats(N * K, 2);
  a[7 * K + 4] = garbage(1)[0];
  gemm_nt(c.data(), a.data(), b.data(), M, N, K);
  for (int i = 0; i < M * N; ++i) REQUIRE(std::isnan(c[i]) == (i / N == 7));
}
