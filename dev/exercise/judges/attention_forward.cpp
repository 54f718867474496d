#include "attention_cases.hpp"

namespace exercise {
namespace {

using Case = AttentionCase;
struct Forward {
  Doubles out, P;
};

// Frequent mistakes.
enum class Slip {
  unscaled, scaled_twice, own_score, future, not_itself, itself_unscored, unseen, before_window, no_window,
  past_only, modulo, quotient, key_slope, early_dropout, kept_dropout, undropped, last, heads_first, keys
};
const char* const beyond = "the softmax is over keys that are not seen, too: e^0 is 1, not 0";
const char* const group = "query head h reads k and v of head h / (H / KV)";
const std::pair<Slip, const char*> slips[] = {
    {Slip::unscaled, "the scale is missing"},
    {Slip::scaled_twice, "it is divided by √D twice, or by D: score has 1/√D already"},
    {Slip::own_score, "that is q·k/√D: score looks at the scale, the cap and the slopes of scoring, too"},
    {Slip::future, "the future is seen: j ends before scoring.end_of_keys(b, i, T)"},
    {Slip::not_itself, "a query sees itself, too: j <= i"},
    {Slip::itself_unscored, "a query sees itself, too: P[i,i] was taken for a score of 0"},
    {Slip::unseen, beyond},
    {Slip::before_window, beyond},
    {Slip::no_window, "the window is not looked at: scoring.first_key(b, i, T)"},
    {Slip::past_only, "only the keys up to the query are read: scoring.end_of_keys(b, i, T)"},
    {Slip::modulo, group},
    {Slip::quotient, group},
    {Slip::key_slope, "slopes has one for each query head: h, not the head of k"},
    {Slip::early_dropout, "the multiplier comes after the softmax: it is for P, not for the scores"},
    {Slip::kept_dropout, "P is kept as the softmax gave it: the multiplier is for out alone"},
    {Slip::undropped, "the multiplier is missing"},
    {Slip::last, "only what the last key gives is left: each adds its share (+=)"},
    {Slip::heads_first, "it is laid out (B,H,T,D), should be (B,T,H,D)"},
    {Slip::keys, "k instead of v"}};

Forward slipped(Slip slip, const Case& c, const Doubles& qkv) {
  Forward f{Doubles(c.B * c.T * c.H * c.D), Doubles(c.B * c.H * c.T * c.T)};
  const Doubles multiplier = c.multiplier();
  const double root = std::sqrt(double(c.D));
  for (size_t row = 0; row < c.B * c.H * c.T; ++row) {
    const size_t i = row % c.T, h = row / c.T % c.H, b = row / c.T / c.H;
    const size_t g = slip == Slip::modulo ? h % c.KV : slip == Slip::quotient ? h / c.KV : h / (c.H / c.KV);
    const size_t first = slip == Slip::no_window ? 0 : c.scoring.first_key(b, i, c.T);
    const size_t seen = slip == Slip::past_only ? i + 1 : c.scoring.end_of_keys(b, i, c.T);
    const size_t end = slip == Slip::future ? c.T : slip == Slip::not_itself ? seen - 1 : seen;
    double* p = &f.P[row * c.T];
    for (size_t j = first; j < end; ++j) {
      const double *q = &qkv[c.at(b, i, h)], *k = &qkv[c.at(b, j, c.H + g)], qk = textbook::dot(q, k, c.D);
      p[j] = slip == Slip::unscaled    ? qk
             : slip == Slip::own_score ? qk / root
                                       : textbook::score(q, k, c.D, slip == Slip::key_slope ? g : h,
                                                         textbook::distance(i, j), c.scoring);
      if (slip == Slip::scaled_twice) p[j] /= root;
      if (slip == Slip::early_dropout) p[j] *= multiplier[row * c.T + j];
      if (slip == Slip::itself_unscored && j == i) p[j] = 0;
    }
    const size_t from = slip == Slip::unseen || slip == Slip::before_window ? 0 : first;
    const size_t to = slip == Slip::unseen ? c.T : end;
    if (to > from) textbook::softmax_forward(p + from, p + from, to - from);
    double* y = &f.out[(slip == Slip::heads_first ? (b * c.H + h) * c.T + i : (b * c.T + i) * c.H + h) * c.D];
    for (size_t j = first; j < end; ++j) {
      const bool plain = slip == Slip::early_dropout || slip == Slip::undropped;
      const double weight = (plain ? 1 : multiplier[row * c.T + j]) * p[j];
      const double* v = &qkv[c.at(b, j, c.H + g + (slip == Slip::keys ? 0 : c.KV))];
      for (size_t d = 0; d < c.D; ++d) y[d] = (slip == Slip::last ? 0 : y[d]) + weight * v[d];
      if (slip == Slip::kept_dropout) p[j] = weight;
    }
  }
  return f;
}

void forward(Judge& judge) {
  for (const Case& c : attention_cases) {
    const Doubles qkv = c.qkv();
    const Guarded in(qkv), m(c.multiplier());
    const double* multiplier = c.dropout ? m.data() : nullptr;
    Output P = written("P", {{"b", c.B}, {"h", c.H}, {"i", c.T}, {"j", c.T}}, Doubles(c.B * c.H * c.T * c.T));
    Output out = written("out", {{"b", c.B}, {"i", c.T}, {"h", c.H}, {"d", c.D}}, Doubles(c.B * c.T * c.H * c.D));
    textbook::answer::attention_forward(out.want.data(), P.want.data(), qkv.data(), multiplier,
                                        {c.B, c.T, c.H, c.KV, c.D}, c.scoring);
    for (const auto& [slip, text] : slips) {
      const Forward f = slipped(slip, c, qkv);
      P.mistakes.push_back({text, f.P}), out.mistakes.push_back({text, f.out});
    }
    judge.test(c.title, c.factors(), {P, out}, [&](auto outputs) {
      textbook::attention_forward<double>(outputs[1], outputs[0], in.data(), multiplier, {c.B, c.T, c.H, c.KV, c.D},
                                          c.scoring);
    });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"attention_forward", forward}};

}  // namespace exercise
