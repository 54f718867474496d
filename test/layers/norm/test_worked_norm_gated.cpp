// The example of layers/norm/norm_gated.md, computed by the textbook.

#include "textbook.hpp"
#include "worked.hpp"

TEST_CASE("layers/norm/norm_gated.md is worked out right", "[worked][pages][norm]") {
  WorkedPage page("norm/norm_gated");
  const size_t N = 2, C = 3, rank = 2;
  const Doubles x = page.numbers("x"), dy = page.numbers("dy");
  Doubles gain = page.numbers("gain"), down = page.numbers("down"), up = page.numbers("up");
  textbook::Norm<double> p{NormKind::gatednorm, page.numbers("eps")[0], gain.data()};
  p.down = down.data(), p.up = up.data(), p.rank = rank;

  Doubles y(N * C), v(N * C), a, s, z, open(N * C);
  textbook::NormSaved<double> saved;
  textbook::norm_forward(y.data(), saved, x.data(), p, N, C);
  for (size_t i = 0; i < N * C; ++i) v[i] = gain[i % C] * x[i] * saved.rstd[i / C];
  for (size_t n = 0; n < N; ++n) {
    const textbook::Gate<double> gate = textbook::gate_of(&v[n * C], p, C);
    for (const auto& [all, one] : {std::pair{&a, &gate.a}, {&s, &gate.s}, {&z, &gate.z}})
      all->insert(all->end(), one->begin(), one->end());
  }
  for (size_t i = 0; i < N * C; ++i) open[i] = textbook::sigmoid(z[i]);
  page.matches("r", saved.rstd);
  page.matches("v", v);
  page.matches("a", a);
  page.matches("s", s);
  page.matches("z", z);
  page.matches("gate", open);
  page.matches("y", y);

  Doubles dx(N * C), dgain(C), ddown(rank * C), dup(C * rank);
  textbook::Norm<double> g{NormKind::gatednorm, 0, dgain.data()};
  g.down = ddown.data(), g.up = dup.data();
  textbook::norm_backward(dx.data(), g, dy.data(), x.data(), saved, p, N, C);
  Doubles dz(N * C), ds(N * rank), slope(N * rank), da(N * rank), direct(N * C), through(N * C), dv(N * C);
  for (size_t i = 0; i < N * C; ++i) {
    dz[i] = dy[i] * v[i] * open[i] * (1 - open[i]), direct[i] = dy[i] * open[i];
    for (size_t j = 0; j < rank; ++j) ds[i / C * rank + j] += dz[i] * up[i % C * rank + j];
  }
  for (size_t i = 0; i < N * rank; ++i) {
    slope[i] = textbook::sigmoid(a[i]) * (1 + a[i] * (1 - textbook::sigmoid(a[i])));
    da[i] = ds[i] * slope[i];
    for (size_t c = 0; c < C; ++c) through[i / rank * C + c] += da[i] * down[i % rank * C + c];
  }
  for (size_t i = 0; i < N * C; ++i) dv[i] = direct[i] + through[i];
  page.matches("dz", dz);
  page.matches("dup", dup);
  page.matches("ds", ds);
  page.matches("slope", slope);
  page.matches("da", da);
  page.matches("ddown", ddown);
  page.matches("direct", direct);
  page.matches("through", through);
  page.matches("dv", dv);
  page.matches("dx", dx);
  page.matches("dgain", dgain);
}
