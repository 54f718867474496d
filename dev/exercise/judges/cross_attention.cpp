#include "attention_slips.hpp"

namespace exercise {
namespace {

// T queries read S keys, from[i] to before to[i] of them.
struct Case {
  const char* title;
  size_t B, T, S, H, KV, D;
  std::vector<int> from, to;  // (B,T)
  bool dropout = false;
  textbook::Scoring scoring = {};

  textbook::CrossShape shape() const { return {B, T, S, H, KV, D, from.data(), to.data(), scoring}; }
  Doubles multiplier() const {  // dropout's, or ones
    Doubles m = numbers(B * H * T * S, 2);
    for (double& x : m) x = !dropout ? 1 : x < -.8 ? 0 : 1.25;
    return m;
  }
  std::vector<Factor> factors() const { return {{"√D", std::sqrt(double(D))}, {"D", double(D)}, {"2", 2}}; }
};

const Case cases[] = {
    {"one head · B=1 T=2 S=3 H=1 D=2", 1, 2, 3, 1, 1, 2, {0, 0}, {3, 3}},
    {"two rows, two heads, more queries than keys · B=2 T=4 S=2 H=2 D=3", 2, 4, 2, 2, 2, 3, {0, 0, 0, 0, 0, 0, 0, 0},
     {2, 2, 2, 2, 2, 2, 2, 2}},
    {"4 query heads read 2 heads of k and v · B=1 T=2 S=3 H=4 KV=2 D=2", 1, 2, 3, 4, 2, 2, {0, 0}, {3, 3}},
    {"two sources in a row, and padding · B=1 T=3 S=6 H=2 D=2", 1, 3, 6, 2, 2, 2, {0, 0, 3}, {3, 3, 5}},
    {"with dropout · B=1 T=3 S=4 H=2 D=2", 1, 3, 4, 2, 2, 2, {0, 0, 0}, {4, 4, 4}, true},
    {"with a scale of 0.8 · B=1 T=3 S=4 H=2 D=2", 1, 3, 4, 2, 2, 2, {0, 0, 0}, {4, 4, 4}, false, {.scale = .8}},
    {"with a cap · B=1 T=3 S=4 H=4 KV=2 D=2", 1, 3, 4, 4, 2, 2, {0, 0, 0}, {4, 4, 4}, false, {.cap = 1.5}}};

struct Gradients {
  Doubles dq, dkv;
};

struct Inputs {
  Doubles q, kv, dout, multiplier, P;
};

Gradients slipped(Slip slip, const Case& c, const Inputs& in) {
  Gradients g{Doubles(in.q.size()), Doubles(in.kv.size())};
  for (size_t row = 0; row < c.B * c.H * c.T; ++row) {
    const size_t i = row % c.T, h = row / c.T % c.H, b = row / c.T / c.H, q = c.shape().q_at(b, i, h);
    const size_t k = head_read(slip, h, c.H, c.KV);
    const auto k_at = [&c, b, k](size_t j) { return ((b * c.S + j) * 2 * c.KV + k) * c.D; };
    add_slipped(&g.dq[q], g.dkv.data(), slip,
                {.D = c.D, .end = slip == Slip::past_only ? std::min(i + 1, c.S) : c.S, .P = &in.P[row * c.S],
                 .multiplier = &in.multiplier[row * c.S], .dout = &in.dout[q], .q = &in.q[q], .kv = in.kv.data(),
                 .k_at = k_at, .v_at = [&c, k_at](size_t j) { return k_at(j) + c.KV * c.D; },
                 .scoring = c.scoring});
  }
  return g;
}

Inputs inputs_of(const Case& c) {
  const size_t rows = c.B * c.T * c.H * c.D;
  Inputs in{numbers(rows, 1), numbers(c.B * c.S * 2 * c.KV * c.D, 4), numbers(rows, 3), c.multiplier(),
            Doubles(c.B * c.H * c.T * c.S)};
  Doubles out(rows);
  textbook::cross_attention_forward(out.data(), in.P.data(), in.q.data(), in.kv.data(), in.multiplier.data(),
                                    c.shape());
  return in;
}

void backward(Judge& judge) {
  for (const Case& c : cases) {
    const Inputs in = inputs_of(c);
    const auto g = complex_step(in.dout, {in.q, in.kv}, [&](const Tensors& t) {
      const std::vector<Complex> z(in.multiplier.begin(), in.multiplier.end());
      std::vector<Complex> y(in.dout.size()), weights(in.P.size());
      textbook::cross_attention_forward(y.data(), weights.data(), t[0].data(), t[1].data(), z.data(), c.shape());
      return y;
    });
    const size_t width = 2 * c.KV * c.D;
    const auto view = [&](const char* name, size_t first) {
      return View{name, {{"b", c.B, c.S * width}, {"s", c.S, width}, {"h", c.KV, c.D}, {"d", c.D, 1}}, first * c.D};
    };
    Output dq = written("dq", {{"b", c.B}, {"t", c.T}, {"h", c.H}, {"d", c.D}}, g[0]), dkv = written("", {}, g[1]);
    dkv.views = {view("dv", c.KV), view("dk", 0)};
    const auto recognize = [&](const AttentionMistake& mistake) {
      const Gradients wrong = slipped(mistake.slip, c, in);
      dq.mistakes.push_back({mistake.text, wrong.dq});
      dkv.mistakes.push_back({mistake.text, wrong.dkv});
    };
    for (const AttentionMistake& mistake : attention_mistakes) recognize(mistake);
    recognize({Slip::past_only,
               "only the keys up to the place of the query are read: it sees all keys of its source"});
    const Guarded q(in.q), kv(in.kv), dout(in.dout), m(in.multiplier), P(in.P);
    judge.test(c.title, c.factors(), {dkv, dq}, [&](auto out) {
      textbook::cross_attention_backward<double>(out[1], out[0], dout.data(), P.data(), q.data(), kv.data(), m.data(),
                                                 c.shape());
    });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"cross_attention", backward}};

}  // namespace exercise
