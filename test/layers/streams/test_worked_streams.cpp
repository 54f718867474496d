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

  Doubles weight = page.numbers("weight"), bias = page.numbers("bias"), scale = {2}, dweight(weight.size()), dbias(S),
          dscale(1), of_end(C), dx_of_end(S * C);
  const Doubles dh_of_end = page.numbers("dhₑ");
  textbook::Streams<double> read, dread;
  read.S = dread.S = S, read.kinds = dread.kinds = 1;
  read.weight = weight.data(), read.bias = bias.data(), read.scale = scale.data();
  dread.weight = dweight.data(), dread.bias = dbias.data(), dread.scale = dscale.data();
  textbook::StreamsSaved<double> at_end;
  textbook::streams_end_forward(of_end.data(), at_end, x.data(), StreamEnd::read, read, {1, C});
  textbook::streams_end_backward(dx_of_end.data(), dread, dh_of_end.data(), at_end, x.data(), StreamEnd::read, read,
                                 {1, C});
  Doubles along;
  for (size_t s = 0; s < S; ++s) along.push_back(textbook::dot(dh_of_end.data(), &x[s * C], C));
  page.matches("zₑ", at_end.z);
  page.matches("readₑ", at_end.k.read);
  page.matches("hₑ", of_end);
  page.matches("dreadₑ", along);
  page.matches("dbias", dbias);
  page.matches("dscale", dscale);
  page.matches("dxₑ", dx_of_end);

  Doubles ones(C, 1), unused(C);
  const auto rms = [](Doubles& gain) {
    return textbook::Norm<double>{.kind = NormKind::rmsnorm, .eps = 0, .gain = gain.data()};
  };
  textbook::StreamsBranch<double> p, g;
  p.streams = {.rule = StreamRule::siamese, .S = S, .norm = rms(ones), .first_write = .5};
  p.branch.norm_sum = rms(ones);
  g.streams.norm = g.branch.norm_sum = rms(unused);
  textbook::StreamsSaved<double> saved;
  textbook::streams_forward(y.data(), saved, x.data(), p, Twice{C}, {1, C});
  textbook::streams_backward(dx.data(), g, dy.data(), x.data(), saved, p, Twice{C}, {1, C});
  Doubles R(C), ds(C), df(C), dh(C);
  for (size_t c = 0; c < C; ++c) R[c] = saved.h[c] - x[c];
  textbook::norm_backward(ds.data(), rms(unused), dy.data(), saved.s.data(), saved.sum, p.branch.norm_sum, 1, C);
  for (size_t c = 0; c < C; ++c) df[c] = .5 * ds[c] + dy[C + c], dh[c] = 2 * df[c];
  page.matches("R", R);
  page.matches("hᵣ", saved.h);
  page.matches("fᵣ", saved.f);
  page.matches("s", saved.s);
  page.matches("yᵣ", y);
  page.matches("ds", ds);
  page.matches("df", df);
  page.matches("dh", dh);
  page.matches("dxᵣ", dx);

  const Doubles v = page.numbers("v"), dh_of_mean = page.numbers("dhᵥ");
  const textbook::Sources<double> sources = {&v[0], &v[2], &v[4]};
  Doubles w = page.numbers("w"), dw(C), mean(C), keys, z, dweights, dz(3), dv;
  const textbook::DepthQuery<double> query{w.data(), rms(ones)};
  textbook::DepthSaved<double> of_mean;
  std::vector<Doubles> parts;
  textbook::depth_forward(mean.data(), of_mean, sources, query, 1, C);
  textbook::depth_backward(parts, {dw.data(), rms(unused)}, dh_of_mean.data(), of_mean, sources, query, 1, C);
  for (size_t k = 0; k < 3; ++k) {
    keys.insert(keys.end(), of_mean.keys[k].begin(), of_mean.keys[k].end());
    z.push_back(textbook::dot(w.data(), of_mean.keys[k].data(), C));
    dweights.push_back(textbook::dot(dh_of_mean.data(), sources[k], C));
    dv.insert(dv.end(), parts[k].begin(), parts[k].end());
  }
  textbook::softmax_backward(dz.data(), dweights.data(), of_mean.weights.data(), 3);
  page.matches("key", keys);
  page.matches("z", z);
  page.matches("α", of_mean.weights);
  page.matches("hᵥ", mean);
  page.matches("dα", dweights);
  page.matches("dz", dz);
  page.matches("dw", dw);
  page.matches("dv", dv);

  textbook::Sinkhorn<double> sinkhorn{S};
  textbook::sinkhorn_forward(sinkhorn, page.numbers("a").data());
  page.matches("rows", sinkhorn.m[0]);
  page.matches("columns", sinkhorn.m[1]);
  page.matches("again", sinkhorn.m[2]);
  page.matches("m", sinkhorn.m.back());
}
