#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

const size_t N = 3, I = 5, O = 4;
const std::vector<Factor> sizes = {{"N", N}, {"I", I}, {"O", O}, {"2", 2}};
const Doubles dy = numbers(N * O, 1), x = numbers(N * I, 2), weight = numbers(O * I, 3), bias = numbers(O, 4);

std::string title(bool has_bias) { return std::string(has_bias ? "with a bias" : "without one") + " · N=3 I=5 O=4"; }

// y without the bias, with the bias in each term, with weight or x in another layout, and with the last i only.
std::vector<Mistake> mistakes_of_y(const double* bias) {
  Doubles plain(N * O), often(N * O), turned(N * O), turned_x(N * O), last(N * O);
  for (size_t n = 0; n < N; ++n)
    for (size_t o = 0; o < O; ++o) {
      const size_t k = n * O + o;
      const double b = bias ? bias[o] : 0;
      turned[k] = turned_x[k] = b;
      for (size_t i = 0; i < I; ++i) {
        plain[k] += x[n * I + i] * weight[o * I + i];
        turned[k] += x[n * I + i] * weight[i * O + o];
        turned_x[k] += x[i * N + n] * weight[o * I + i];
      }
      last[k] = b + x[n * I + I - 1] * weight[o * I + I - 1];
      often[k] = plain[k] + I * b;
    }
  return {{"the bias is missing", plain},
          {"the bias is added once for each i, and is to be added once", often},
          {"weight is read as (I,O), and is (O,I): row o begins at weight[o * I]", turned},
          {"x is read as (I,N), and is (N,I): row n begins at x[n * I]", turned_x},
          {"only what the last i gives is left: the sum over i is missing", last}};
}

void forward(Judge& judge) {
  for (const bool has_bias : {false, true}) {
    const Guarded in_x(x), in_weight(weight), in_bias(bias);
    const double* b = has_bias ? in_bias.data() : nullptr;
    Doubles want(N * O);
    textbook::answer::linear_forward(want.data(), x.data(), weight.data(), b, {N, I, O});
    judge.test(title(has_bias), sizes, {written("y", {{"n", N}, {"o", O}}, want, mistakes_of_y(b))}, [&](auto out) {
      textbook::linear_forward<double>(out[0], in_x.data(), in_weight.data(), b, {N, I, O});
    });
  }
}

// The gradients of the parameters if only the last row of the sum is left.
Doubles last_row(bool of_bias) {
  Doubles last(of_bias ? O : O * I);
  for (size_t o = 0; o < O; ++o)
    for (size_t i = 0; i < I; ++i)
      last[of_bias ? o : o * I + i] = dy[(N - 1) * O + o] * (of_bias ? 1 : x[(N - 1) * I + i]);
  return last;
}

// dx with weight read as (I,O), and with the last o only.
std::vector<Mistake> mistakes_of_dx() {
  Doubles turned(N * I), last(N * I);
  for (size_t n = 0; n < N; ++n)
    for (size_t i = 0; i < I; ++i) {
      for (size_t o = 0; o < O; ++o) turned[n * I + i] += dy[n * O + o] * weight[i * O + o];
      last[n * I + i] = dy[n * O + O - 1] * weight[(O - 1) * I + i];
    }
  return {{"weight is read as (I,O), and is (O,I): row o begins at weight[o * I]", turned},
          {"only what the last o gives is left: the sum over o is missing", last}};
}

void backward(Judge& judge) {
  for (const bool has_bias : {true, false}) {
    const auto g = complex_step(dy, {x, weight, bias}, [&](const Tensors& t) {
      std::vector<Complex> y(N * O);
      textbook::linear_forward(y.data(), t[0].data(), t[1].data(), has_bias ? t[2].data() : nullptr, {N, I, O});
      return y;
    });
    const std::string last = "only what the last row gives is left: += over n";
    std::vector<Output> outputs = {written("dx", {{"n", N}, {"i", I}}, g[0], mistakes_of_dx()),
                                   added("dweight", {{"o", O}, {"i", I}}, g[1], {{last, last_row(false)}})};
    if (has_bias) outputs.push_back(added("dbias", {{"o", O}}, g[2], {{last, last_row(true)}}));
    const Guarded in_dy(dy), in_x(x), in_weight(weight);
    judge.test(title(has_bias), sizes, outputs, [&](auto out) {
      textbook::linear_backward<double>(out[0], out[1], has_bias ? out[2] : nullptr, in_dy.data(), in_x.data(),
                                        in_weight.data(), {N, I, O});
    });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"linear_forward", forward}, {"linear", backward}};

}  // namespace exercise
