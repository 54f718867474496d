#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

const size_t N = 2, C = 4;

// f[n,c] = u[n,c]·u[n,c + 1], circular: a nonlinear function that mixes channels.
struct Neighbors {
  static size_t next(size_t i) { return (i + 1) % C == 0 ? i + 1 - C : i + 1; }
  template <class Number>
  void forward(Number* f, const Number* u) const {
    for (size_t i = 0; i < N * C; ++i) f[i] = u[i] * u[next(i)];
  }
  template <class Number>
  void backward(Number* du, const Number* df, const Number* u) const {
    for (size_t i = 0; i < N * C; ++i) du[i] = 0;
    for (size_t i = 0; i < N * C; ++i) {
      du[i] += df[i] * u[next(i)];
      du[next(i)] += df[i] * u[i];
    }
  }
};

struct Case {
  const char* title;
  bool in, out, sum, gain;
  double skip, in_scale, out_scale = 1;
};
const Case cases[] = {{"no norm: x + F(x) · N=2 C=4", false, false, false, false, 1, 1},
                      {"Post-LN: norm( x + F(x) )", false, false, true, false, 1, 1},
                      {"Pre-LN: x + F( norm(x) )", true, false, false, false, 1, 1},
                      {"Sandwich-LN: x + norm( F( norm(x) ) )", true, true, false, false, 1, 1},
                      {"DeepNorm: norm( 1.7·x + F(x) )", false, false, true, false, 1.7, 1},
                      {"LayerNorm scaling: x + F( 0.5·norm(x) )", true, false, false, false, 1, .5},
                      {"LayerScale: x + λ ⊙ F( norm(x) )", true, false, false, true, 1, 1},
                      {"scaled branch: x + 0.3·λ ⊙ F( norm(x) )", true, false, false, true, 1, 1, .3}};

// `pointers`: gains of norm_in, norm_out and norm_sum, and λ. LayerNorm without bias.
template <class Number, class Four>
textbook::Branch<Number> branch(const Case& c, Four pointers) {
  const auto norm = [&](bool there, size_t at) {
    return there ? textbook::Norm<Number>{NormKind::layernorm, 1e-5, pointers[at]} : textbook::Norm<Number>{};
  };
  textbook::Branch<Number> p{norm(c.in, 0), norm(c.out, 1), norm(c.sum, 2)};
  if (c.gain) p.gain.weight = pointers[3];
  p.skip = c.skip, p.in_scale = c.in_scale, p.out_scale = c.out_scale;
  return p;
}

// Frequent mistakes.
enum class Slip {
  no_past, no_through, dy_past, unskipped, all_skipped, branch_skipped, dy_through, no_sum, ds_to_F, unscaled,
  scaled_late, scaled_twice, unscaled_out, ungained, in_reads_u, in_reads_s, out_reads_u, out_reads_o, sum_reads_x,
  sum_reads_f, F_reads_x
};
const char* const in_reads = "the backward of norm_in reads x, what forward gave it";
const char* const out_reads = "the backward of norm_out reads f, what forward gave it";
const char* const sum_reads = "the backward of norm_sum reads s, what forward gave it";
const std::pair<Slip, const char*> slips[] = {
    {Slip::no_past, "x's way past the branch is missing: skip·ds"},
    {Slip::no_through,
     "x's way through the branch is missing; or F.backward got one buffer for du and df: it writes du "
     "before it has read df"},
    {Slip::dy_past, "skip·dy instead of skip·ds: norm_sum is in the way"},
    {Slip::unskipped, "the skip path is not multiplied by skip"},
    {Slip::all_skipped, "skip belongs to ds only: the branch has no such factor"},
    {Slip::branch_skipped, "skip belongs to ds, not to what comes through the branch"},
    {Slip::dy_through, "dy goes through the branch where ds should: norm_sum is in its way, too"},
    {Slip::no_sum, "norm_sum is left out: ds = dy only where there is none"},
    {Slip::ungained, "λ is missing"},
    {Slip::unscaled_out, "out_scale is missing"},
    {Slip::ds_to_F, "F.backward is given ds: norm_out and λ lie between"},
    {Slip::scaled_late, "in_scale belongs before norm_in's backward: the gain's gradient has it, too"},
    {Slip::unscaled, "in_scale is missing"},
    {Slip::scaled_twice, "in_scale occurs twice"},
    {Slip::in_reads_u, in_reads},
    {Slip::in_reads_s, in_reads},
    {Slip::out_reads_u, out_reads},
    {Slip::out_reads_o, out_reads},
    {Slip::sum_reads_x, sum_reads},
    {Slip::sum_reads_f, sum_reads},
    {Slip::F_reads_x, "F.backward reads u, what forward gave it"}};

using Weights = std::vector<Doubles>;  // gains of norm_in, norm_out and norm_sum, λ; or their gradients
textbook::Branch<double> branch_of(const Case& c, Weights& w) {
  double* pointers[] = {w[0].data(), w[1].data(), w[2].data(), w[3].data()};
  return branch<double>(c, pointers);
}

Doubles slipped(Slip slip, const Case& c, Weights& gradients, const Doubles& dy, const Doubles& x,
                const textbook::BranchSaved<double>& saved, Weights weights) {
  const auto is = [&](Slip one) { return slip == one; };
  const auto& [u, f, o, s, in, out, sum] = saved;
  const auto g = branch_of(c, gradients), p = branch_of(c, weights);
  Doubles ds(N * C), d(N * C), df(N * C), du(N * C), dx(N * C);
  const Doubles& at_sum = is(Slip::sum_reads_x) ? x : is(Slip::sum_reads_f) ? f : s;
  const Doubles& at_out = is(Slip::out_reads_u) ? u : is(Slip::out_reads_o) ? o : f;
  const Doubles& at_in = is(Slip::in_reads_u) ? u : is(Slip::in_reads_s) ? s : x;
  textbook::norm_backward(ds.data(), g.norm_sum, dy.data(), at_sum.data(), sum, p.norm_sum, N, C);
  if (is(Slip::no_sum)) ds = dy;
  const Doubles enters = scaled(is(Slip::unscaled_out) ? 1 : p.out_scale, is(Slip::dy_through) ? dy : ds);
  textbook::gain_backward(d.data(), g.gain, enters.data(), o.data(), p.gain, N, C);
  if (is(Slip::ungained)) d = enters;
  textbook::norm_backward(df.data(), g.norm_out, d.data(), at_out.data(), out, p.norm_out, N, C);
  Neighbors().backward(du.data(), (is(Slip::ds_to_F) ? ds : df).data(), (is(Slip::F_reads_x) ? x : u).data());
  const double before = is(Slip::unscaled) || is(Slip::scaled_late) ? 1 : p.in_scale;
  const double behind = is(Slip::scaled_late) || is(Slip::scaled_twice) ? p.in_scale : 1;
  textbook::norm_backward(dx.data(), g.norm_in, scaled(before, du).data(), at_in.data(), in, p.norm_in, N, C);
  const double skip = is(Slip::no_past) ? 0 : is(Slip::unskipped) || is(Slip::branch_skipped) ? 1 : p.skip;
  const double through = is(Slip::no_through) ? 0 : is(Slip::all_skipped) || is(Slip::branch_skipped) ? p.skip : 1;
  for (size_t i = 0; i < N * C; ++i) dx[i] = through * behind * dx[i] + skip * (is(Slip::dy_past) ? dy : ds)[i];
  return dx;
}

void backward(Judge& judge) {
  for (const Case& c : cases) {
    const Doubles dy = numbers(N * C, 1), x = numbers(N * C, 2);
    const Weights weights = {numbers(C, 3), numbers(C, 4), numbers(C, 5), numbers(C, 6)};
    const auto g = complex_step(dy, {x, weights[0], weights[1], weights[2], weights[3]}, [&](Tensors& t) {
      Complex* pointers[] = {t[1].data(), t[2].data(), t[3].data(), t[4].data()};
      std::vector<Complex> y(N * C);
      textbook::BranchSaved<Complex> saved;
      textbook::branch_forward(y.data(), saved, t[0].data(), branch<Complex>(c, pointers), Neighbors(), {N, C});
      return y;
    });

    std::vector<Guarded> in;
    for (const Doubles& w : weights) in.emplace_back(w);
    double* pointers[] = {in[0].data(), in[1].data(), in[2].data(), in[3].data()};
    const auto p = branch<double>(c, pointers);
    textbook::BranchSaved<double> saved;
    Doubles y(N * C);
    textbook::branch_forward(y.data(), saved, x.data(), p, Neighbors(), {N, C});

    const char* names[] = {"dgain in", "dgain out", "dgain sum", "dλ"};
    const bool there[] = {c.in, c.out, c.sum, c.gain};
    std::vector<Output> outputs = {written("dx", {{"n", N}, {"c", C}}, g[0])};
    for (size_t k = 0; k < 4; ++k)
      if (there[k]) outputs.push_back(added(names[k], {{"c", C}}, g[k + 1]));
    for (const auto& [slip, text] : slips) {
      Weights gradients(4, Doubles(C));
      outputs[0].mistakes.push_back({text, slipped(slip, c, gradients, dy, x, saved, weights)});
      for (size_t k = 0, next = 1; k < 4; ++k)
        if (there[k]) outputs[next++].mistakes.push_back({text, gradients[k]});
    }
    const Guarded in_dy(dy), in_x(x);
    judge.test(c.title, {{"skip", c.skip}, {"in_scale", c.in_scale}, {"2", 2}}, outputs, [&](auto out) {
      double* gradients[4] = {};
      for (size_t k = 0, next = 1; k < 4; ++k)
        if (there[k]) gradients[k] = out[next++];
      textbook::branch_backward<double>(out[0], branch<double>(c, gradients), in_dy.data(), in_x.data(), saved, p,
                                        Neighbors(), {N, C});
    });
    for (size_t k = 0; k < 4; ++k)
      if (in[k].values() != weights[k])
        judge.wrong(std::string(k < 3 ? "a gain" : "λ") + " was changed: p has the parameters, g their gradients");
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"residual", backward}};

}  // namespace exercise
