#include "attention_cases.hpp"

namespace exercise {
namespace {

using Case = AttentionCase;

// Frequent mistakes. If two give the same dq and dk, the more specific one comes first.
enum class Slip {
  unscaled, usual_scale, scaled_twice, uncapped, no_sum, plain_mean, bracket, undropped, undropped_dP, dropped_p,
  dropped_dS, last_dq, last_dk, last_dv, past_only, modulo, quotient, not_itself, keys, unmoved
};
const char* const group = "query head h reads k and v of head h / (H / KV)";
const std::pair<Slip, const char*> slips[] = {
    {Slip::unscaled, "the scale s of the scores is missing"},
    {Slip::usual_scale, "the scale is not 1/√D here: scoring.factor(D)"},
    {Slip::scaled_twice, "s occurs twice: score_slope has it"},
    {Slip::uncapped, "the slope of the cap is missing"},
    {Slip::no_sum, "every P[i,j] falls when another S[i,j'] grows: - Σⱼ P·dP is missing"},
    {Slip::plain_mean, "what is taken from dP is its mean weighted by P, not the plain one"},
    {Slip::bracket, "P stands before the bracket: it multiplies Σⱼ P·dP, too"},
    {Slip::undropped_dP, "dropout's multiplier is missing in dP"},
    {Slip::undropped, "dropout's multiplier is missing"},
    {Slip::dropped_p, "softmax_backward wants P as the softmax gave it, without the multiplier"},
    {Slip::dropped_dS, "the multiplier is there once more, on dS: it is in dP already"},
    {Slip::last_dq, "only what the last key gives is left: each adds its share (+=)"},
    {Slip::last_dk, "only what the last query gives is left: each adds its share (+=)"},
    {Slip::last_dv, "only what the last query gives is left: each adds its share (+=)"},
    {Slip::past_only, "only the keys up to the query are read: scoring.end_of_keys(b, i, T)"},
    {Slip::modulo, group},
    {Slip::quotient, group},
    {Slip::not_itself, "a query sees itself, too: j <= i"},
    {Slip::keys, "k instead of v, in dP"},
    {Slip::unmoved, "P is read from the first key of the window on, dP from key 0 on"}};

Doubles slipped(Slip slip, const Case& c, const Doubles& dout, const Doubles& P, const Doubles& qkv) {
  Doubles dqkv(qkv.size());
  const Doubles multiplier = c.multiplier();
  textbook::Scoring scoring = c.scoring;
  if (slip == Slip::unscaled) scoring.scale = 1;
  if (slip == Slip::usual_scale) scoring.scale = 0;
  if (slip == Slip::uncapped) scoring.cap = 0;
  for (size_t row = 0; row < c.B * c.H * c.T; ++row) {
    const size_t i = row % c.T, h = row / c.T % c.H, b = row / c.T / c.H;
    const size_t seen = slip == Slip::past_only ? i + 1 : c.scoring.end_of_keys(b, i, c.T);
    const size_t end = slip == Slip::not_itself ? seen - 1 : seen;
    const size_t g = slip == Slip::modulo ? h % c.KV : slip == Slip::quotient ? h / c.KV : h / (c.H / c.KV);
    const size_t q = c.at(b, i, h), first = c.scoring.first_key(b, i, c.T);
    const double* dy = &dout[((b * c.T + i) * c.H + h) * c.D];
    Doubles dP(end), p(end);
    for (size_t j = 0; j < end; ++j) {
      const size_t k = c.at(b, j, c.H + g), v = c.at(b, j, c.H + c.KV + g);
      const double m = slip == Slip::undropped ? 1 : multiplier[row * c.T + j], weight = m * P[row * c.T + j];
      p[j] = slip == Slip::dropped_p ? weight : P[row * c.T + j];
      dP[j] = (slip == Slip::undropped_dP ? 1 : m) * textbook::dot(dy, &qkv[slip == Slip::keys ? k : v], c.D);
      for (size_t d = 0; d < c.D; ++d) dqkv[v + d] = (slip == Slip::last_dv ? 0 : dqkv[v + d]) + weight * dy[d];
    }
    if (slip == Slip::unmoved) dP.insert(dP.begin(), first, 0.);
    double sum = 0;
    for (size_t j = 0; j < end && slip != Slip::no_sum; ++j)
      sum += slip == Slip::plain_mean ? dP[j] / end : p[j] * dP[j];
    for (size_t j = 0; j < end; ++j) {
      const size_t k = c.at(b, j, c.H + g);
      double dS = slip == Slip::bracket ? p[j] * dP[j] - sum : p[j] * (dP[j] - sum);
      dS *= textbook::score_slope(&qkv[q], &qkv[k], c.D, scoring);
      if (slip == Slip::scaled_twice) dS *= scoring.factor(c.D);
      if (slip == Slip::dropped_dS) dS *= multiplier[row * c.T + j];
      for (size_t d = 0; d < c.D; ++d) {
        dqkv[q + d] = (slip == Slip::last_dq ? 0 : dqkv[q + d]) + dS * qkv[k + d];
        dqkv[k + d] = (slip == Slip::last_dk ? 0 : dqkv[k + d]) + dS * qkv[q + d];
      }
    }
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
    for (const auto& [slip, text] : slips) dqkv.mistakes.push_back({text, slipped(slip, c, dout, P, qkv)});
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
