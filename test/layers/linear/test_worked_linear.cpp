// The example of layers/linear/linear.md.

#include <numeric>

#include "textbook.hpp"
#include "worked.hpp"

namespace {

constexpr size_t N = 2, I = 3, O = 2;

double dot(const Doubles& a, const Doubles& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.); }

Doubles minus(Doubles a, const Doubles& b, double factor = 1) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= factor * b[i];
  return a;
}

Doubles forward(const Doubles& x, const Doubles& weight, const Doubles& bias) {
  Doubles y(N * O);
  textbook::linear_forward(y.data(), x.data(), weight.data(), bias.data(), {N, I, O});
  return y;
}

double half_squares(const Doubles& d) { return .5 * dot(d, d); }

}  // namespace

TEST_CASE("layers/linear/linear.md is worked out right", "[worked][pages][linear]") {
  WorkedPage page("linear/linear");
  const Doubles x = page.numbers("x"), weight = page.numbers("weight"), bias = page.numbers("bias"),
                target = page.numbers("target");

  const Doubles y = forward(x, weight, bias), dy = minus(y, target);
  const double L = half_squares(dy);
  page.matches("y", y);
  page.matches("dy", dy);
  page.matches("loss", Doubles{L});

  Doubles dx(N * I), dweight(O * I), dbias(O);
  textbook::linear_backward(dx.data(), dweight.data(), dbias.data(), dy.data(), x.data(), weight.data(), {N, I, O});
  page.matches("dx", dx);
  page.matches("dweight", dweight);
  page.matches("dbias", dbias);
  page.matches("Σdx·x", Doubles{dot(dx, x)});
  page.matches("Σdw·w", Doubles{dot(dweight, weight)});
  page.matches("Σdy·y₀", Doubles{dot(dy, forward(x, weight, Doubles(O)))});

  const double h = page.numbers("h")[0];
  Doubles moved = weight;
  moved[0 * I + 2] += h;
  const Doubles y_moved = forward(x, moved, bias);
  const double L_moved = half_squares(minus(y_moved, target));
  page.matches("y_moved", y_moved);
  page.matches("loss_moved", Doubles{L_moved});
  page.matches("slope", Doubles{(L_moved - L) / h});

  const double rate = page.numbers("rate")[0];
  const Doubles new_weight = minus(weight, dweight, rate), new_bias = minus(bias, dbias, rate);
  page.matches("new_weight", new_weight);
  page.matches("new_bias", new_bias);
  page.matches("predicted", Doubles{rate * (dot(dweight, dweight) + dot(dbias, dbias))});
  page.matches("new_loss", Doubles{half_squares(minus(forward(x, new_weight, new_bias), target))});

  Doubles sum(O * I);
  for (size_t n = 0; n < N; ++n) {
    textbook::linear_backward<double>(dx.data(), sum.data(), nullptr, &dy[n * O], &x[n * I], weight.data(), {1, I, O});
    page.matches(n == 0 ? "after_row_1" : "after_row_2", sum);
  }
}
