// The numbers of layers/residual/residual.md.

#include "textbook.hpp"
#include "worked.hpp"

namespace {

constexpr size_t N = 2, C = 3;

// f = factor·u, rotated by `places` within each row. Records the inputs and outputs of both passes.
struct Turn {
  double factor;
  size_t places;
  Doubles u = {}, f = {}, df = {}, du = {};

  static size_t turned(size_t i, size_t by) { return i / C * C + (i % C + by) % C; }
  void forward(double* to, const double* from) {
    for (size_t i = 0; i < N * C; ++i) to[i] = factor * from[turned(i, places)];
    u.assign(from, from + N * C), f.assign(to, to + N * C);
  }
  void backward(double* to, const double* from, const double*) {
    for (size_t i = 0; i < N * C; ++i) to[turned(i, places)] = factor * from[i];
    df.assign(from, from + N * C), du.assign(to, to + N * C);
  }
};

struct Run {
  Turn F{2, 1};
  textbook::BranchSaved<double> saved = {};
  Doubles y = Doubles(N * C), dx = Doubles(N * C);
};

Run run(bool norm_in, bool norm_out, bool norm_sum, double skip, double eps, const Doubles& x, const Doubles& dy) {
  Doubles ones(C, 1), unused(C);
  const auto branch = [&](Doubles& gain) {
    const auto norm = [&](bool there) {
      return textbook::Norm<double>{NormKind::layernorm, eps, there ? gain.data() : nullptr};
    };
    return textbook::Branch<double>{norm(norm_in), norm(norm_out), norm(norm_sum), {}, skip};
  };
  Run r;
  textbook::branch_forward(r.y.data(), r.saved, x.data(), branch(ones), r.F, {N, C});
  textbook::branch_backward(r.dx.data(), branch(unused), dy.data(), x.data(), r.saved, branch(ones), r.F, {N, C});
  return r;
}

Doubles minus(Doubles a, const Doubles& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

}  // namespace

TEST_CASE("layers/residual/residual.md is worked out right", "[worked][pages][residual]") {
  WorkedPage page("residual/residual");
  const Doubles x = page.numbers("x"), dy = page.numbers("dy");
  const double eps = page.numbers("eps")[0], alpha = page.numbers("alpha")[0];

  const Run pre = run(true, false, false, 1, eps, x, dy);
  page.matches("pre_u", pre.F.u);
  page.matches("pre_f", pre.F.f);
  page.matches("pre_y", pre.y);
  page.matches("pre_du", pre.F.du);
  page.matches("pre_back", minus(pre.dx, dy));
  page.matches("pre_dx", pre.dx);

  const Run post = run(false, false, true, 1, eps, x, dy);
  page.matches("post_s", post.saved.s);
  page.matches("post_y", post.y);
  page.matches("post_ds", post.F.df);
  page.matches("post_du", post.F.du);
  page.matches("post_dx", post.dx);

  const Run deep = run(false, false, true, alpha, eps, x, dy);
  page.matches("deep_s", deep.saved.s);
  page.matches("deep_y", deep.y);
  page.matches("deep_ds", deep.F.df);
  page.matches("deep_dx", deep.dx);

  const Run sandwich = run(true, true, false, 1, eps, x, dy);
  page.matches("sandwich_o", sandwich.saved.o);
  page.matches("sandwich_y", sandwich.y);
  page.matches("sandwich_df", sandwich.F.df);
  page.matches("sandwich_dx", sandwich.dx);

  Doubles ones(C, 1), unused(C), y(N * C), dx(N * C);
  textbook::Branch<double> p, g;
  p.norm_in = {NormKind::layernorm, eps, ones.data()}, g.norm_in = {NormKind::layernorm, eps, unused.data()};
  textbook::TwoSaved<double> saved;
  std::pair F(Turn{2, 1}, Turn{1, 2});
  textbook::parallel_forward(y.data(), saved, x.data(), {p, p}, F, {N, C});
  textbook::parallel_backward(dx.data(), {g, g}, dy.data(), x.data(), saved, {p, p}, F, {N, C});
  Doubles du = F.first.du;
  for (size_t i = 0; i < N * C; ++i) du[i] += F.second.du[i];
  page.matches("par_y", y);
  page.matches("par_du", du);
  page.matches("par_dx", dx);

  // Lengths that the page's text states.
  const auto length = [](const Doubles& a) { return norm_of(std::span(a).subspan(C)); };
  CHECK(length(dy) == Approx(2.3).margin(.05));
  CHECK(length(post.dx) == Approx(.5).margin(.05));
  CHECK(1 / post.saved.sum.rstd[1] == Approx(5.1).margin(.05));
}
