// The numbers of layers/norm/norm.md.

#include "textbook.hpp"
#include "worked.hpp"

namespace {

constexpr size_t N = 2, C = 3;

struct Result {
  Doubles y = Doubles(N * C), dx = Doubles(N * C), dgain = Doubles(C), dbias = Doubles(C);
  textbook::NormSaved<double> saved;
};

Result run(NormKind kind, Doubles gain, Doubles bias, double eps, const Doubles& x, const Doubles& dy,
           bool offset = false) {
  Result r;
  textbook::Norm<double> p{kind, eps, gain.data(), bias.empty() ? nullptr : bias.data()};
  textbook::Norm<double> g{kind, eps, r.dgain.data(), bias.empty() ? nullptr : r.dbias.data()};
  p.unit_offset = g.unit_offset = offset;
  textbook::norm_forward(r.y.data(), r.saved, x.data(), p, N, C);
  textbook::norm_backward(r.dx.data(), g, dy.data(), x.data(), r.saved, p, N, C);
  return r;
}

// x̂: the output of a norm with gain 1 and no bias.
Doubles normalized(NormKind kind, double eps, const Doubles& x, const Doubles& dy) {
  return run(kind, Doubles(C, 1), {}, eps, x, dy).y;
}

// f(n, c) summed over each row and divided by C.
template <class F>
Doubles row_means(F f) {
  Doubles means(N);
  for (size_t i = 0; i < N * C; ++i) means[i / C] += f(i) / double(C);
  return means;
}

}  // namespace

TEST_CASE("layers/norm/norm.md is worked out right", "[worked][pages][norm]") {
  WorkedPage page("norm/norm");
  const Doubles x = page.numbers("x"), gain = page.numbers("gain"), bias = page.numbers("bias"),
                dy = page.numbers("dy");
  const double eps = page.numbers("eps")[0];
  const Result r = run(NormKind::layernorm, gain, bias, eps, x, dy);
  const Doubles xhat = normalized(NormKind::layernorm, eps, x, dy);
  page.matches("mean", r.saved.mean);
  page.matches("variance", row_means([&](size_t i) { return std::pow(x[i] - r.saved.mean[i / C], 2); }));
  page.matches("rstd", r.saved.rstd);
  page.matches("xhat", xhat);
  page.matches("y", r.y);

  Doubles dxhat(N * C), bracket(N * C);
  for (size_t i = 0; i < N * C; ++i) dxhat[i] = dy[i] * gain[i % C], bracket[i] = r.dx[i] / r.saved.rstd[i / C];
  page.matches("dxhat", dxhat);
  page.matches("mean_dxhat", row_means([&](size_t i) { return dxhat[i]; }));
  page.matches("mean_dot", row_means([&](size_t i) { return dxhat[i] * xhat[i]; }));
  page.matches("bracket", bracket);
  page.matches("dx", r.dx);
  page.matches("dgain", r.dgain);
  page.matches("dbias", r.dbias);

  const Result rms = run(NormKind::rmsnorm, gain, {}, eps, x, dy);
  const Doubles rms_xhat = normalized(NormKind::rmsnorm, eps, x, dy);
  page.matches("mean_square", row_means([&](size_t i) { return x[i] * x[i]; }));
  page.matches("rms_rstd", rms.saved.rstd);
  page.matches("rms_xhat", rms_xhat);
  page.matches("rms_y", rms.y);
  page.matches("rms_mean_dot", row_means([&](size_t i) { return dxhat[i] * rms_xhat[i]; }));
  page.matches("rms_dx", rms.dx);
  page.matches("rms_dgain", rms.dgain);

  // Statements in the page's text.
  const Doubles ones = row_means([&](size_t i) { return r.dx[i]; }),
                along = row_means([&](size_t i) { return rms.dx[i] * x[i]; });
  for (size_t n = 0; n < N; ++n) {
    CHECK(std::fabs(ones[n]) < 1e-14);
    CHECK(std::fabs(along[n]) < 1e-5);  // not 0 because of eps
    CHECK(r.dx[n * C] / r.dx[n * C + 1] == Approx(n == 0 ? -.5 : -5. / 7).epsilon(1e-3));
  }
  const Result offset = run(NormKind::rmsnorm, {0, 1, -.5}, {}, eps, x, dy, true);
  page.matches("rms_y", offset.y);
  page.matches("rms_dx", offset.dx);
  page.matches("rms_dgain", offset.dgain);
}
