#include "attention_cases.hpp"
#include "attention_slips.hpp"

namespace exercise {
namespace {

using Case = AttentionCase;

// Mistakes about which keys a query sees. Cross attention cannot have them.
const AttentionMistake own_mistakes[] = {
    {Slip::past_only, "only the keys up to the query are read: scoring.end_of_keys(b, i, T)"},
    {Slip::not_itself, "a query sees itself, too: j <= i"},
    {Slip::unmoved, "P is read from the first key of the window on, dP from key 0 on"}};

Doubles slipped(Slip slip, const Case& c, const Doubles& dout, const Doubles& P, const Doubles& qkv) {
  Doubles dqkv(qkv.size());
  const Doubles multiplier = c.multiplier();
  for (size_t row = 0; row < c.B * c.H * c.T; ++row) {
    const size_t i = row % c.T, h = row / c.T % c.H, b = row / c.T / c.H, q = c.at(b, i, h);
    const size_t seen = slip == Slip::past_only ? i + 1 : c.scoring.end_of_keys(b, i, c.T);
    const size_t k = c.H + head_read(slip, h, c.H, c.KV);
    add_slipped(&dqkv[q], dqkv.data(), slip,
                {.D = c.D, .end = slip == Slip::not_itself ? seen - 1 : seen, .P = &P[row * c.T],
                 .multiplier = &multiplier[row * c.T], .dout = &dout[((b * c.T + i) * c.H + h) * c.D], .q = &qkv[q],
                 .kv = qkv.data(), .k_at = [&, b, k](size_t j) { return c.at(b, j, k); },
                 .v_at = [&, b, k](size_t j) { return c.at(b, j, k + c.KV); }, .scoring = c.scoring,
                 .first = c.scoring.first_key(b, i, c.T)});
  }
  return dqkv;
}

void backward(Judge& judge) {
  for (const Case& c : attention_cases) {
    const Doubles qkv = c.qkv(), dout = numbers(c.B * c.T * c.H * c.D, 3), m = c.multiplier();
    const Guarded in_qkv(qkv), in_dout(dout), in_m(m);
    Doubles out(dout.size()), P(c.B * c.H * c.T * c.T);
    textbook::attention_forward(out.data(), P.data(), qkv.data(), m.data(), {c.B, c.T, c.H, c.KV, c.D}, c.scoring);
    const Guarded in_P(P);
    const auto g = complex_step(dout, {qkv}, [&](const Tensors& t) {
      const std::vector<Complex> z(m.begin(), m.end());
      std::vector<Complex> y(dout.size()), weights(P.size());
      textbook::attention_forward(y.data(), weights.data(), t[0].data(), z.data(), {c.B, c.T, c.H, c.KV, c.D},
                                  c.scoring);
      return y;
    });
    Output dqkv = written("", {}, g[0]);
    const auto recognize = [&](const AttentionMistake& mistake) {
      dqkv.mistakes.push_back({mistake.text, slipped(mistake.slip, c, dout, P, qkv)});
    };
    for (const AttentionMistake& mistake : attention_mistakes) recognize(mistake);
    for (const AttentionMistake& mistake : own_mistakes) recognize(mistake);
    const auto view = [&](const char* name, size_t heads, size_t first) {
      return View{name, {{"b", c.B, c.T * c.width()}, {"t", c.T, c.width()}, {"h", heads, c.D}, {"d", c.D, 1}},
                  first * c.D};
    };
    dqkv.views = {view("dv", c.KV, c.H + c.KV), view("dq", c.H, 0), view("dk", c.KV, c.H)};
    judge.test(c.title, c.factors(), {dqkv}, [&](auto out) {
      textbook::attention_backward<double>(out[0], in_dout.data(), in_P.data(), in_qkv.data(),
                                           c.dropout ? in_m.data() : nullptr, {c.B, c.T, c.H, c.KV, c.D}, c.scoring);
    });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"attention", backward}};

}  // namespace exercise
