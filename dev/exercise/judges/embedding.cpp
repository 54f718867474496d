#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

void backward(Judge& judge) {
  const size_t N = 5, V = 4, C = 3;
  const std::vector<int> tokens = {2, 0, 2, 3, 2};  // token 1 does not occur
  const Doubles dx = numbers(N * C, 1), weight = numbers(V * C, 2);
  for (const double scale : {1., 1.5}) {
    const auto g = complex_step(dx, {weight}, [&](const Tensors& t) {
      std::vector<Complex> x(N * C);
      textbook::embedding_forward(x.data(), tokens.data(), t[0].data(), N, C, scale);
      return x;
    });
    Doubles last(V * C), by_token(V * C), turned(V * C);  // mistakes
    for (size_t k = 0; k < N * C; ++k) {
      const size_t n = k / C, c = k % C, to = tokens[n] * C + c;
      last[to] = scale * dx[k];
      by_token[to] += scale * dx[to];
      turned[to] += scale * dx[c * N + n];
    }
    const Guarded in(dx);
    judge.test("tokens 2 0 2 3 2 · N=5 V=4 C=3 scale=" + std::string(scale == 1 ? "1" : "1.5"),
               {{"scale", scale}, {"N", N}, {"C", C}},
               {added("dweight", {{"v", V}, {"c", C}}, g[0],
                      {{"a token that occurs again keeps only its last gradient: +=", last},
                       {"dx is read at tokens[n], and is to be read at n", by_token},
                       {"dx is read as (C,N), and is (N,C)", turned}})},
               [&](auto out) { textbook::embedding_backward<double>(out[0], tokens.data(), in.data(), N, C, scale); });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"embedding", backward}};

}  // namespace exercise
