#include "dev/exercise/check.hpp"
#include "answer.hpp"

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

// Frequent mistakes. If two give the same dq and dk, the more specific one comes first.
enum class Slip {
  unscaled, usual_scale, scaled_twice, uncapped, no_sum, plain_mean, bracket, undropped, undropped_dP, dropped_p,
  dropped_dS, last_dq, last_dk, last_dv, causal, modulo, quotient, keys
};
const char* const group = "query head h reads k and v of head h / (H / KV)";
const std::pair<Slip, const char*> slips[] = {
    {Slip::unscaled, "the scale s of the scores is missing"},
    {Slip::usual_scale, "the scale is not 1/√D here: score_slope has it"},
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
    {Slip::causal, "only the keys up to the place of the query are read: it sees all keys of its source"},
    {Slip::modulo, group},
    {Slip::quotient, group},
    {Slip::keys, "k instead of v, in dP"}};

struct Gradients {
  Doubles dq, dkv;
};

struct Inputs {
  Doubles q, kv, dout, multiplier, P;
};

Gradients slipped(Slip slip, const Case& c, const Inputs& in) {
  Gradients g{Doubles(in.q.size()), Doubles(in.kv.size())};
  textbook::CrossShape shape = c.shape();
  if (slip == Slip::unscaled) shape.scoring.scale = 1;
  if (slip == Slip::usual_scale) shape.scoring.scale = 0;
  if (slip == Slip::uncapped) shape.scoring.cap = 0;
  for (size_t row = 0; row < c.B * c.H * c.T; ++row) {
    const size_t i = row % c.T, h = row / c.T % c.H, b = row / c.T / c.H, q = shape.q_at(b, i, h);
    const size_t own = h / (c.H / c.KV);
    const size_t read = slip == Slip::modulo ? h % c.KV : slip == Slip::quotient ? h / c.KV : own;
    const size_t end = slip == Slip::causal ? std::min(i + 1, c.S) : c.S;
    const auto k_at = [&](size_t j) { return ((b * c.S + j) * 2 * c.KV + read) * c.D; };
    Doubles dP(end), p(end);
    for (size_t j = 0; j < end; ++j) {
      const size_t k = k_at(j), v = k + c.KV * c.D;
      const double m = slip == Slip::undropped ? 1 : in.multiplier[row * c.S + j], weight = m * in.P[row * c.S + j];
      p[j] = slip == Slip::dropped_p ? weight : in.P[row * c.S + j];
      dP[j] = textbook::dot(&in.dout[q], &in.kv[slip == Slip::keys ? k : v], c.D);
      if (slip != Slip::undropped_dP) dP[j] *= m;
      for (size_t d = 0; d < c.D; ++d)
        g.dkv[v + d] = (slip == Slip::last_dv ? 0 : g.dkv[v + d]) + weight * in.dout[q + d];
    }
    double sum = 0;
    for (size_t j = 0; j < end && slip != Slip::no_sum; ++j)
      sum += slip == Slip::plain_mean ? dP[j] / end : p[j] * dP[j];
    for (size_t j = 0; j < end; ++j) {
      const size_t k = k_at(j);
      double dS = slip == Slip::bracket ? p[j] * dP[j] - sum : p[j] * (dP[j] - sum);
      dS *= textbook::score_slope(&in.q[q], &in.kv[k], c.D, shape.scoring);
      if (slip == Slip::scaled_twice) dS *= shape.scoring.factor(c.D);
      if (slip == Slip::dropped_dS) dS *= in.multiplier[row * c.S + j];
      for (size_t d = 0; d < c.D; ++d) {
        g.dq[q + d] = (slip == Slip::last_dq ? 0 : g.dq[q + d]) + dS * in.kv[k + d];
        g.dkv[k + d] = (slip == Slip::last_dk ? 0 : g.dkv[k + d]) + dS * in.q[q + d];
      }
    }
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
    for (const auto& [slip, text] : slips) {
      const Gradients wrong = slipped(slip, c, in);
      dq.mistakes.push_back({text, wrong.dq}), dkv.mistakes.push_back({text, wrong.dkv});
    }
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
