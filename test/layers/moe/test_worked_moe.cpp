// The examples in layers/moe/moe.md.

#include "layers/textbook/moe.hpp"
#include "textbook.hpp"
#include "worked.hpp"

TEST_CASE("layers/moe/moe.md is worked out right", "[worked][pages][moe]") {
  WorkedPage page("moe/moe");
  const size_t k = size_t(page.numbers("k")[0]), N = 2, E = 3;
  const Doubles l = page.numbers("l"), y = page.numbers("y"), df = page.numbers("df");
  textbook::RouterSaved<double> saved;
  textbook::router_forward<double>(saved, l.data(), nullptr, {E, k, true, 0, 0}, N);
  page.matches("s", saved.s);
  page.matches("chosen", Doubles(saved.chosen.begin(), saved.chosen.end()));
  page.matches("p", saved.p);
  Doubles f(N), t(N * k), dp(N * k), dl(N * E), none(N * k);
  for (size_t i = 0; i < N * k; ++i) {
    f[i / k] += saved.p[i] * y[i];
    dp[i] = df[i / k] * y[i], t[i] = saved.p[i] * dp[i];
  }
  page.matches("f", f);
  page.matches("t", t);
  textbook::router_backward(dl.data(), dp.data(), saved, {E, k, true, 0, 0}, 1., N);
  page.matches("dl", dl);
  const textbook::Routing balanced{E, k, true, 1, 0};
  page.matches("share", textbook::shares(saved, balanced));
  page.matches("balance", Doubles{textbook::router_losses(saved, balanced, N) / double(N)});
  textbook::router_backward(dl.data(), none.data(), saved, balanced, 1. / double(N), N);
  page.matches("dl_balance", dl);
}
