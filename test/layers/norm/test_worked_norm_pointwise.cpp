// The examples of layers/norm/norm_pointwise.md, computed by the textbook.

#include "textbook.hpp"
#include "worked.hpp"

namespace {

// Checks one curve, whose rows on the page end in `mark`.
void check_curve(WorkedPage& page, NormKind kind, const std::string& curve, double shift, const std::string& mark) {
  const size_t N = 2, C = 3;
  const Doubles x = page.numbers("x"), dy = page.numbers("dy");
  Doubles gain = page.numbers("gain"), bias = page.numbers("bias"), alpha = page.numbers("α");
  textbook::Norm<double> p{kind, 0, gain.data(), bias.data()};
  p.alpha = alpha.data();
  if (kind == NormKind::derf) p.shift = &shift;

  Doubles u(N * C), f(N * C), slope(N * C), y(N * C), du(N * C);
  for (size_t i = 0; i < N * C; ++i) {
    u[i] = alpha[0] * x[i] + shift;
    f[i] = textbook::squash(u[i], kind), slope[i] = textbook::squash_slope(u[i], kind);
    du[i] = dy[i] * gain[i % C] * slope[i];
  }
  textbook::NormSaved<double> saved;
  textbook::norm_forward(y.data(), saved, x.data(), p, N, C);
  page.matches("u" + mark, u);
  page.matches(curve, f);
  page.matches("slope" + mark, slope);
  page.matches("y" + mark, y);
  page.matches("du" + mark, du);

  Doubles dx(N * C), dgain(C), dbias(C), dalpha(1), dshift(1);
  textbook::Norm<double> g{kind, 0, dgain.data(), dbias.data()};
  g.alpha = dalpha.data();
  if (kind == NormKind::derf) g.shift = dshift.data();
  textbook::norm_backward(dx.data(), g, dy.data(), x.data(), saved, p, N, C);
  page.matches("dx" + mark, dx);
  page.matches("dα" + mark, dalpha);
  page.matches("dgain" + mark, dgain);
  page.matches("dbias", dbias);
  if (kind == NormKind::derf) page.matches("dshift", dshift);
}

}  // namespace

TEST_CASE("layers/norm/norm_pointwise.md is worked out right", "[worked][pages][norm]") {
  WorkedPage page("norm/norm_pointwise");
  check_curve(page, NormKind::dyt, "tanh", 0, "");
  check_curve(page, NormKind::derf, "erf", page.numbers("shift")[0], "₂");
}
