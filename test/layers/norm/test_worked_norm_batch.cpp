// The example of layers/norm/norm_batch.md, computed by the textbook.

#include "textbook.hpp"
#include "worked.hpp"

TEST_CASE("layers/norm/norm_batch.md is worked out right", "[worked][pages][norm]") {
  WorkedPage page("norm/norm_batch");
  const size_t N = 4, C = 2;
  const Doubles x = page.numbers("x"), dy = page.numbers("dy"), later = page.numbers("later");
  Doubles gain = page.numbers("gain"), bias = page.numbers("bias"), running_mean(C, 0), running_var(C, 1);
  textbook::Norm<double> p{NormKind::batchnorm, page.numbers("eps")[0], gain.data(), bias.data()};
  p.running_mean = running_mean.data(), p.running_var = running_var.data();

  Doubles y(N * C), xhat(N * C), variance(C);
  textbook::NormSaved<double> saved;
  textbook::norm_forward(y.data(), saved, x.data(), p, N, C);
  for (size_t i = 0; i < N * C; ++i) xhat[i] = (y[i] - bias[i % C]) / gain[i % C];
  for (size_t c = 0; c < C; ++c) variance[c] = 1 / (saved.rstd[c] * saved.rstd[c]);
  page.matches("μ", saved.mean);
  page.matches("v", variance);
  page.matches("r", saved.rstd);
  page.matches("x̂", xhat);
  page.matches("y", y);

  Doubles dx(N * C), dgain(C), dbias(C);
  const textbook::Norm<double> g{NormKind::batchnorm, 0, dgain.data(), dbias.data()};
  textbook::norm_backward(dx.data(), g, dy.data(), x.data(), saved, p, N, C);
  Doubles dxhat(N * C), mean(C), dot(C), wrong(N * C);
  for (size_t i = 0; i < N * C; ++i) {
    dxhat[i] = gain[i % C] * dy[i], wrong[i] = dxhat[i] * saved.rstd[i % C];
    mean[i % C] += dxhat[i] / N, dot[i % C] += dxhat[i] * xhat[i] / N;
  }
  page.matches("dbias", dbias);
  page.matches("dgain", dgain);
  page.matches("dx̂", dxhat);
  page.matches("mean", mean);
  page.matches("dot", dot);
  page.matches("dx", dx);
  page.matches("wrong", wrong);

  page.matches("running_mean", running_mean);
  page.matches("running_var", running_var);
  textbook::norm_forward(y.data(), saved, later.data(), p, N, C);
  page.matches("first", {y.data(), C});
  p.training = false;
  textbook::norm_forward(y.data(), saved, x.data(), p, N, C);
  page.matches("evaluated", y);
  textbook::norm_forward(y.data(), saved, later.data(), p, N, C);
  page.matches("first_evaluated", {y.data(), C});
}
