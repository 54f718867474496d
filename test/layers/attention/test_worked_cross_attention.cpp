// The numbers of layers/attention/cross_attention.md.

#include "layers/config/placements.hpp"
#include "layers/textbook/cross_attention.hpp"
#include "textbook.hpp"
#include "worked.hpp"

namespace {

constexpr size_t T = 2, S = 3, D = 2;
const std::vector<int> kFrom(T, 0), kTo(T, S);

// One decoder block: its keys and values of the memory, its attention, and its share of the memory's gradient.
struct Pass {
  Doubles kv = Doubles(S * 2 * D), P = Doubles(T * S), out = Doubles(T * D);
  Doubles dq = Doubles(T * D), dkv = Doubles(S * 2 * D), dmemory = Doubles(S * D);

  Pass(const Doubles& memory, const Doubles& q, const Doubles& key, const Doubles& value, const Doubles& dout) {
    Doubles weight = key, dweight(2 * D * D);
    weight.insert(weight.end(), value.begin(), value.end());
    const Doubles ones(T * S, 1);
    const textbook::CrossShape shape{1, T, S, 1, 1, D, kFrom.data(), kTo.data()};
    textbook::linear_forward<double>(kv.data(), memory.data(), weight.data(), nullptr, {S, D, 2 * D});
    textbook::cross_attention_forward<double>(out.data(), P.data(), q.data(), kv.data(), ones.data(), shape);
    textbook::cross_attention_backward<double>(dq.data(), dkv.data(), dout.data(), P.data(), q.data(), kv.data(),
                                               ones.data(), shape);
    textbook::linear_backward<double>(dmemory.data(), dweight.data(), nullptr, dkv.data(), memory.data(), weight.data(),
                                      {S, D, 2 * D});
  }
};

// Keys (part 0) or values (part 1) of rows k|v, or their gradients.
Doubles part_of(const Doubles& kv, size_t part) {
  Doubles x;
  for (size_t j = 0; j < S; ++j) x.insert(x.end(), &kv[(2 * j + part) * D], &kv[(2 * j + part) * D] + D);
  return x;
}

// Returns a[i]·b[j] for all rows of both.
Doubles products(const Doubles& a, const Doubles& b) {
  Doubles all;
  for (size_t i = 0; i < T; ++i)
    for (size_t j = 0; j < S; ++j) all.push_back(textbook::dot(&a[i * D], &b[j * D], D));
  return all;
}

void check_scores(WorkedPage& page, const Pass& pass, const Doubles& q, const Doubles& dout) {
  const Doubles qk = products(q, part_of(pass.kv, 0)), dP = products(dout, part_of(pass.kv, 1));
  Doubles scores = qk, mean(T), dS(T * S);
  for (double& s : scores) s /= std::sqrt(2.);
  for (size_t i = 0; i < T * S; ++i) mean[i / S] += pass.P[i] * dP[i];
  for (size_t i = 0; i < T * S; ++i) dS[i] = pass.P[i] * (dP[i] - mean[i / S]);
  page.matches("qk", qk);
  page.matches("S", scores);
  page.matches("dP", dP);
  page.matches("Δ", mean);
  page.matches("dS", dS);
}

// The fast version on the page's example.
void check_product(WorkedPage& page, const Pass& pass, const Doubles& q, const Doubles& dout) {
  const std::vector<float> x(q.begin(), q.end()), kv(pass.kv.begin(), pass.kv.end()), dy(dout.begin(), dout.end());
  std::vector<float> out(T * D), lse(T), dq(T * D), dkv(kv.size());
  const AttentionShape shape{.B = 1, .T = T, .n_head = 1, .kv_heads = 1, .head_dim = D, .causal = false, .sources = S,
                             .from = kFrom.data(), .to = kTo.data()};
  const QkvRows<const float> rows{x.data(), kv.data(), kv.data() + D, D, 2 * D};
  attention_forward(out.data(), lse.data(), rows, shape, {}, 0);
  attention_backward({dq.data(), dkv.data(), dkv.data() + D, D, 2 * D}, dy.data(), out.data(), lse.data(), rows, shape,
                     {}, 0);
  page.matches("out", widen(out));
  page.matches("dq", widen(dq));
  page.matches("dk", part_of(widen(dkv), 0));
  page.matches("dv", part_of(widen(dkv), 1));
}

void check_constants(WorkedPage& page) {
  const std::vector<int> depths = page.integers("depths");
  const Depth encoder{depths[0], depths[1], StackKind::encoder}, decoder{depths[1], depths[0], StackKind::decoder};
  const Placement& row = placement_row("deepnorm");
  page.matches("α_e", Doubles{row.skip(encoder)});
  page.matches("β_e", Doubles{row.init.gain(encoder)});
  page.matches("α_d", Doubles{row.skip(decoder)});
  page.matches("β_d", Doubles{row.init.gain(decoder)});
  page.matches("α_alone", Doubles{row.skip({depths[0]})});
}

}  // namespace

TEST_CASE("layers/attention/cross_attention.md is worked out right", "[worked][pages][cross]") {
  WorkedPage page("attention/cross_attention");
  const Doubles memory = page.numbers("μ"), q = page.numbers("q"), dout = page.numbers("dout");
  const Pass pass(memory, q, page.numbers("Wk"), page.numbers("Wv"), dout);
  check_scores(page, pass, q, dout);
  page.matches("k", part_of(pass.kv, 0));
  page.matches("v", part_of(pass.kv, 1));
  page.matches("P", pass.P);
  page.matches("dμ", pass.dmemory);
  check_product(page, pass, q, dout);

  const Pass other(memory, page.numbers("q'"), page.numbers("Wk'"), page.numbers("Wv'"), page.numbers("dout'"));
  page.matches("P'", other.P);
  page.matches("dk'", part_of(other.dkv, 0));
  page.matches("dv'", part_of(other.dkv, 1));
  page.matches("dμ'", other.dmemory);
  Doubles both = pass.dmemory;
  for (size_t i = 0; i < both.size(); ++i) both[i] += other.dmemory[i];
  page.matches("dμ+dμ'", both);

  check_constants(page);
}
