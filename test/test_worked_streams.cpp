// The numbers of layers/streams/streams.md.

#include "layers/textbook/streams.hpp"
#include "textbook.hpp"
#include "worked.hpp"

namespace {

// f = 2·h
struct Twice {
  size_t n;
  void forward(double* f, const double* h) const {
    for (size_t i = 0; i < n; ++i) f[i] = 2 * h[i];
  }
  void backward(double* dh, const double* df, const double*) const { forward(dh, df); }
};

}  // namespace

TEST_CASE("layers/streams/streams.md is worked out right", "[worked][pages][streams]") {
  constexpr size_t S = 2, C = 2;
  WorkedPage page("streams/streams");
  textbook::Coefficients<double> k{S, 1, C}, dk{S, 1, C};
  k.read = page.numbers("read"), k.carry = page.numbers("carry"), k.write = page.numbers("write");
  const Doubles x = page.numbers("x"), dy = page.numbers("dy");
  Doubles y(S * C), h(C), f(C), dx(S * C);
  textbook::mixing_forward(y.data(), h.data(), f.data(), x.data(), k, Twice{C});
  textbook::mixing_backward(dx.data(), dk, dy.data(), x.data(), h.data(), f.data(), k, Twice{C});
  page.matches("h", h);
  page.matches("f", f);
  page.matches("y", y);
  page.matches("dwrite", dk.write);
  page.matches("dcarry", dk.carry);
  page.matches("dread", dk.read);
  page.matches("dx", dx);

  textbook::Sinkhorn<double> sinkhorn{S};
  textbook::sinkhorn_forward(sinkhorn, page.numbers("a").data());
  page.matches("rows", sinkhorn.m[0]);
  page.matches("columns", sinkhorn.m[1]);
  page.matches("again", sinkhorn.m[2]);
  page.matches("m", sinkhorn.m.back());
}
