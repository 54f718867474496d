// The bits of a matrix product do not depend on its tiles.

#include <array>

#include "check.hpp"
#include "layers/kernels/gemm.hpp"

namespace {

// For some processors, compilers split multiply-adds in a loop with a single sum: a tile of one row and one vector.
std::vector<float> product(int M, int N, int K) {
  const std::vector<float> a = random_floats(size_t(K) * M, 1), b = random_floats(size_t(K) * N, 2);
  std::vector<float> c(size_t(M) * N);
  gemm_tn(c.data(), a.data(), b.data(), M, N, K, {});
  return c;
}

}  // namespace

TEST_CASE("threads whose share of a product is one vector wide have the same bits", "[gemm]") {
  for (const int N : {8, 16, 24, 32, 48})
    check_same_for_all_threads([=] { return product(13, N, 4000); });
}

TEST_CASE("a tile of one row and one vector has the bits of a larger one", "[gemm]") {
  const int K = 40, N = 48;
  const std::vector<float> a = random_floats(7 * K, 1), b = random_floats(size_t(K) * N, 2);
  std::vector<float> all(7 * N), one(7 * N);
  gemm_nn(all.data(), a.data(), b.data(), 7, N, K, {});
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < N; j += 4)
      gemm_serial({&one[i * N + j], size_t(N)}, {&a[i * K], size_t(K), 1}, {&b[j], size_t(N), 1}, 1, 4, K, false);
  CHECK(same_bits(one, all));
}
