#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

const size_t N = 2, C = 3;

// f[n,c] = h[n,c]·h[n,c + 1], circular: a nonlinear function that mixes channels.
struct Neighbors {
  static size_t next(size_t i) { return (i + 1) % C == 0 ? i + 1 - C : i + 1; }
  template <class Number>
  void forward(Number* f, const Number* h) const {
    for (size_t i = 0; i < N * C; ++i) f[i] = h[i] * h[next(i)];
  }
  template <class Number>
  void backward(Number* dh, const Number* df, const Number* h) const {
    for (size_t i = 0; i < N * C; ++i) dh[i] = 0;
    for (size_t i = 0; i < N * C; ++i) {
      dh[i] += df[i] * h[next(i)];
      dh[next(i)] += df[i] * h[i];
    }
  }
};

struct Case {
  const char* title;
  size_t S;
  double skip;
};
const Case cases[] = {{"one stream · S=1 N=2 C=3", 1, 1},
                      {"two streams · S=2 N=2 C=3", 2, 1},
                      {"three streams, skip 1.7 · S=3 N=2 C=3", 3, 1.7}};

// Frequent mistakes.
enum class Slip {
  no_carry, no_read, carry_turned, unskipped, all_skipped, even, dy_read, carry_unskipped, write_reads_h, f_read,
  unwritten
};
const std::pair<Slip, const char*> slips[] = {
    {Slip::no_carry, "the way of x past the branch is missing: skip·Σₜ carry[s,t]·dy[t]"},
    {Slip::no_read, "the way of x through the branch is missing: read[s]·dh"},
    {Slip::carry_turned, "carry[t,s] instead of carry[s,t]: backward goes from t to s"},
    {Slip::unskipped, "skip is missing on the way past the branch"},
    {Slip::all_skipped, "skip belongs to the way past the branch only"},
    {Slip::even, "what comes back through the branch is not multiplied by read[s]"},
    {Slip::dy_read, "h is read by the branch: its gradient is dh, not dy"},
    {Slip::carry_unskipped, "dcarry is without skip"},
    {Slip::write_reads_h, "write multiplies f, not h"},
    {Slip::f_read, "read multiplies x, not h or f"},
    {Slip::unwritten, "df is the sum of dy[t] without write[t]"}};

struct Gradients {
  Doubles dx, read, carry, write;
};

textbook::Coefficients<double> coefficients(const Case& c, const Doubles& read, const Doubles& carry,
                                            const Doubles& write) {
  textbook::Coefficients<double> k{c.S, N, C, c.skip};
  k.read = read, k.carry = carry, k.write = write;
  return k;
}

Gradients slipped(Slip slip, const Case& c, const Doubles& dy, const Doubles& x, const Doubles& h, const Doubles& f,
                  const textbook::Coefficients<double>& k) {
  const auto is = [&](Slip one) { return slip == one; };
  const size_t S = c.S;
  Gradients g{Doubles(x.size()), Doubles(S * N), Doubles(S * S * N), Doubles(S * N)};
  Doubles df(N * C), dh(N * C);
  const auto at = [&](size_t s, size_t n, size_t i) { return (s * N + n) * C + i; };
  for (size_t t = 0; t < S; ++t)
    for (size_t n = 0; n < N; ++n)
      for (size_t i = 0; i < C; ++i) {
        g.write[t * N + n] += dy[at(t, n, i)] * (is(Slip::write_reads_h) ? h : f)[n * C + i];
        df[n * C + i] += (is(Slip::unwritten) ? 1 : k.write[t * N + n]) * dy[at(t, n, i)];
      }
  Neighbors().backward(dh.data(), df.data(), h.data());
  const double skip = is(Slip::no_carry) ? 0 : is(Slip::unskipped) ? 1 : c.skip;
  const double through = is(Slip::no_read) ? 0 : is(Slip::all_skipped) ? c.skip : 1;
  for (size_t s = 0; s < S; ++s)
    for (size_t n = 0; n < N; ++n)
      for (size_t i = 0; i < C; ++i) {
        for (size_t t = 0; t < S; ++t) {
          const size_t to = (s * S + t) * N + n, back = (t * S + s) * N + n;
          g.dx[at(s, n, i)] += skip * k.carry[is(Slip::carry_turned) ? back : to] * dy[at(t, n, i)];
          g.carry[to] += (is(Slip::carry_unskipped) ? 1 : c.skip) * dy[at(t, n, i)] * x[at(s, n, i)];
        }
        g.dx[at(s, n, i)] += through * (is(Slip::even) ? 1 : k.read[s * N + n]) * dh[n * C + i];
        g.read[s * N + n] += (is(Slip::dy_read) ? dy[at(s, n, i)] : dh[n * C + i]) *
                             (is(Slip::f_read) ? h[n * C + i] : x[at(s, n, i)]);
      }
  return g;
}

void backward(Judge& judge) {
  for (const Case& c : cases) {
    const size_t S = c.S;
    const Doubles dy = numbers(S * N * C, 1), x = numbers(S * N * C, 2), read = numbers(S * N, 3),
                  carry = numbers(S * S * N, 4), write = numbers(S * N, 5);
    const auto g = complex_step(dy, {x, read, carry, write}, [&](Tensors& t) {
      textbook::Coefficients<Complex> k{S, N, C, c.skip};
      k.read = t[1], k.carry = t[2], k.write = t[3];
      std::vector<Complex> y(S * N * C), h(N * C), f(N * C);
      textbook::mixing_forward(y.data(), h.data(), f.data(), t[0].data(), k, Neighbors());
      return y;
    });
    const auto k = coefficients(c, read, carry, write);
    Doubles y(S * N * C), h(N * C), f(N * C);
    textbook::mixing_forward(y.data(), h.data(), f.data(), x.data(), k, Neighbors());

    std::vector<Output> outputs = {written("dx", {{"s", S}, {"n", N}, {"c", C}}, g[0]),
                                   written("dread", {{"s", S}, {"n", N}}, g[1]),
                                   written("dcarry", {{"s", S}, {"t", S}, {"n", N}}, g[2]),
                                   written("dwrite", {{"t", S}, {"n", N}}, g[3])};
    for (const auto& [slip, text] : slips) {
      const Gradients wrong = slipped(slip, c, dy, x, h, f, k);
      const Doubles* values[] = {&wrong.dx, &wrong.read, &wrong.carry, &wrong.write};
      for (size_t i = 0; i < 4; ++i) outputs[i].mistakes.push_back({text, *values[i]});
    }
    const Guarded in_dy(dy), in_x(x), in_h(h), in_f(f);
    judge.test(c.title, {{"skip", c.skip}, {"2", 2}}, outputs, [&](auto out) {
      textbook::Coefficients<double> dk{S, N, C};
      double* results[] = {dk.read.data(), dk.carry.data(), dk.write.data()};
      const size_t sizes[] = {S * N, S * S * N, S * N};
      for (size_t i = 0; i < 3; ++i) std::copy_n(out[i + 1], sizes[i], results[i]);
      textbook::mixing_backward<double>(out[0], dk, in_dy.data(), in_x.data(), in_h.data(), in_f.data(), k,
                                        Neighbors());
      for (size_t i = 0; i < 3; ++i) std::copy_n(results[i], sizes[i], out[i + 1]);
    });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"hyper_connections", backward}};

}  // namespace exercise
