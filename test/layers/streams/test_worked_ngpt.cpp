// The example of layers/streams/ngpt.md.

#include "layers/textbook/ngpt.hpp"

#include "textbook.hpp"
#include "worked.hpp"

TEST_CASE("layers/streams/ngpt.md is worked out right", "[worked][pages][ngpt]") {
  WorkedPage page("streams/ngpt");
  constexpr size_t C = 2;
  const Doubles x = page.numbers("x"), f = page.numbers("f"), dy = page.numbers("dy");
  Doubles a = page.numbers("a"), da(C), y(C), dx(C), df(C), from(C), to(C), s(C), ds(C), dto(C), dfrom(C);
  const textbook::EigenRate<double> rate{a.data()};
  textbook::sphere_forward(y.data(), x.data(), f.data(), rate, {1, C});
  textbook::sphere_backward(dx.data(), df.data(), {da.data()}, dy.data(), x.data(), f.data(), rate, {1, C});
  textbook::direction_forward(from.data(), x.data(), C);
  textbook::direction_forward(to.data(), f.data(), C);
  for (size_t c = 0; c < C; ++c) s[c] = from[c] + rate.alpha(c) * (to[c] - from[c]);
  textbook::direction_backward(ds.data(), dy.data(), s.data(), C);
  for (size_t c = 0; c < C; ++c) dto[c] = rate.alpha(c) * ds[c], dfrom[c] = ds[c] - dto[c];
  page.matches("x̂", from);
  page.matches("f̂", to);
  page.matches("s", s);
  page.matches("y", y);
  page.matches("ds", ds);
  page.matches("df̂", dto);
  page.matches("dx̂", dfrom);
  page.matches("df", df);
  page.matches("dx", dx);
  page.matches("da", da);

  const Doubles q = page.numbers("q"), factor = page.numbers("factor"), dq_out = page.numbers("dq_out");
  Doubles q_out = q, dq = dq_out, dfactor(3), unit(3), dunit(3);
  textbook::UnitHeads<double> saved;
  textbook::unit_heads_forward(q_out.data(), saved, factor.data(), 1, {1, 1, 3, 3});
  textbook::unit_heads_backward(dq.data(), dfactor.data(), saved, factor.data(), 1, {1, 1, 3, 3});
  textbook::direction_forward(unit.data(), q.data(), 3);
  for (size_t i = 0; i < 3; ++i) dunit[i] = factor[i] * dq_out[i];
  page.matches("unit", unit);
  page.matches("q_out", q_out);
  page.matches("dunit", dunit);
  page.matches("dq", dq);
  page.matches("dfactor", dfactor);
}
