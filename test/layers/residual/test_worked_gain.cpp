// The numbers of layers/residual/gain.md.

#include "textbook.hpp"
#include "worked.hpp"

namespace {

// A sublayer that puts out the same whatever it reads.
struct Constant {
  const Doubles& o;
  void forward(double* f, const double*) const { std::copy(o.begin(), o.end(), f); }
  void backward(double* du, const double*, const double*) const { std::fill_n(du, o.size(), 0.); }
};

double variance(const Doubles& x) {
  double sum = 0, squares = 0;
  for (const double v : x) sum += v / double(x.size());
  for (const double v : x) squares += (v - sum) * (v - sum) / double(x.size());
  return squares;
}

}  // namespace

TEST_CASE("layers/residual/gain.md is worked out right", "[worked][pages][gain]") {
  constexpr size_t N = 2, C = 3;
  WorkedPage page("residual/gain");
  const Doubles x = page.numbers("x"), dy = page.numbers("dy");
  for (const bool single : {false, true}) {
    const std::string name = single ? "one_" : "";
    Doubles weight = page.numbers(single ? "one" : "lambda"), dweight(weight.size()), y(N * C), dx(N * C);
    const textbook::Gain<double> p{weight.data(), single}, g{dweight.data(), single};
    textbook::gain_forward(y.data(), x.data(), p, N, C);
    textbook::gain_backward(dx.data(), g, dy.data(), x.data(), p, N, C);
    page.matches(name + "y", y);
    page.matches(name + "dx", dx);
    page.matches(name + "dlambda", dweight);
  }
  Doubles gate = page.numbers("gate"), dgate(1), y(N * C);
  textbook::gpas_forward(y.data(), x.data(), textbook::Gpas<double>{gate.data()}, N, C);
  textbook::gpas_backward({dgate.data()}, dy.data(), x.data(), textbook::Gpas<double>{gate.data()}, N, C);
  page.matches("gpas_y", y);
  page.matches("gpas_ds", dy);
  page.matches("dgate", dgate);

  Doubles omega = page.numbers("omega"), domega(C), dx(N * C);
  const Doubles o = page.numbers("o");
  const Constant F{o};
  textbook::SkipGain<double, const Constant> skip{F, {omega.data()}, {domega.data()}, 1, 1, N, C};
  skip.forward(y.data(), x.data());
  skip.backward(dx.data(), dy.data(), x.data());
  page.matches("admin_s", y);
  page.matches("admin_dx", dx);
  page.matches("domega", domega);
  page.matches("omega2", Doubles{std::sqrt(variance(x) + variance(o))});
}
