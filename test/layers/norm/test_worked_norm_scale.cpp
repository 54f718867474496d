// The example of layers/norm/norm_scale.md, computed by the textbook.

#include "textbook.hpp"
#include "worked.hpp"

TEST_CASE("layers/norm/norm_scale.md is worked out right", "[worked][pages][norm]") {
  WorkedPage page("norm/norm_scale");
  const size_t N = 2, C = 3;
  Doubles x = page.numbers("x"), g = page.numbers("g"), dy = page.numbers("dy");
  const textbook::Norm<double> p{NormKind::scalenorm, page.numbers("eps")[0], g.data()};

  Doubles y(N * C), u(N * C);
  textbook::NormSaved<double> saved;
  textbook::norm_forward(y.data(), saved, x.data(), p, N, C);
  for (size_t i = 0; i < N * C; ++i) u[i] = y[i] / g[0];
  page.matches("r", saved.rstd);
  page.matches("u", u);
  page.matches("y", y);

  Doubles dx(N * C), dg(1);
  const textbook::Norm<double> gradients{NormKind::scalenorm, 0, dg.data()};
  textbook::norm_backward(dx.data(), gradients, dy.data(), x.data(), saved, p, N, C);
  Doubles dot(N), along(N * C), across(N * C), blind(N);
  for (size_t i = 0; i < N * C; ++i) dot[i / C] += dy[i] * u[i];
  for (size_t i = 0; i < N * C; ++i) {
    along[i] = u[i] * dot[i / C], across[i] = dy[i] - along[i];
    blind[i / C] += dx[i] * x[i];
  }
  page.matches("dot", dot);
  page.matches("dg", dg);
  page.matches("along", along);
  page.matches("across", across);
  page.matches("dx", dx);
  page.matches("dx·x", blind);
}
