#include "dev/exercise/check.hpp"
#include "answer.hpp"

namespace exercise {
namespace {

struct Case {
  const char* title;
  size_t B, T, heads, D, rotated;
  size_t behind() const { return 2 * D; }  // the numbers of v, which are not rotated
  size_t stride() const { return heads * D + behind(); }
};
const Case cases[] = {{"two sequences, one head · B=2 T=3 D=4 rotated=4", 2, 3, 1, 4, 4},
                      {"two heads · B=2 T=3 D=6 rotated=6", 2, 3, 2, 6, 6},
                      {"a part of each head · B=2 T=3 D=6 rotated=4", 2, 3, 2, 6, 4}};
const double theta = 100;

// Frequent mistakes.
enum class Slip { forwards, new_a, added, row, neighbors, frequency, partner, whole, values };
const std::pair<Slip, const char*> slips[] = {
    {Slip::forwards, "it is turned as in forward: the gradient is turned back"},
    {Slip::new_a, "the second of a pair is computed from the new first: keep the old one"},
    {Slip::added, "in place: it is written (=), not added (+=)"},
    {Slip::row, "the position is p[n], not n: sequence 1 begins at 0 again"},
    {Slip::neighbors, "pairs are halves, (i, i + rotated/2), not neighbors"},
    {Slip::frequency, "rotated, not D, stands in the frequency"},
    {Slip::partner, "the partner is rotated/2 away, not D/2"},
    {Slip::whole, "rotated numbers of a head are turned, not all D"},
    {Slip::values, "v is not rotated: heads counts only the heads of q and k"}};

Doubles slipped(Slip slip, const Case& c, Doubles dx) {
  const size_t rotated = slip == Slip::whole ? c.D : c.rotated;
  const size_t apart = slip == Slip::neighbors ? 1 : slip == Slip::partner ? c.D / 2 : rotated / 2;
  for (size_t n = 0; n < c.B * c.T; ++n)
    for (size_t h = 0; h < (slip == Slip::values ? c.stride() / c.D : c.heads); ++h)
      for (size_t i = 0; i < rotated / 2; ++i) {
        const size_t position = slip == Slip::row ? n : n % c.T;
        const double angle = position * std::pow(theta, -2.0 * i / (slip == Slip::frequency ? c.D : rotated));
        const double cosine = std::cos(angle), sine = (slip == Slip::forwards ? -1 : 1) * std::sin(angle);
        double* a = &dx[n * c.stride() + h * c.D + (slip == Slip::neighbors ? 2 * i : i)];
        const double da = a[0], db = a[apart], old = slip == Slip::added;
        a[0] = old * da + da * cosine + db * sine;
        a[apart] = old * db + db * cosine - (slip == Slip::new_a ? a[0] : da) * sine;
      }
  return dx;
}

void backward(Judge& judge) {
  for (const Case& c : cases) {
    const size_t row = c.stride(), size = c.B * c.T * row;
    const Doubles dy = numbers(size, 1), x = numbers(size, 2);
    const auto g = complex_step(dy, {x}, [&](const Tensors& t) {
      std::vector<Complex> y = t[0];
      textbook::rope_forward(y.data(), {theta, c.rotated}, textbook::positions(c.B, c.T), c.heads, c.D, row);
      return y;
    });
    Output dx = in_place("", {}, dy, g[0]);
    for (const auto& [slip, text] : slips) dx.mistakes.push_back({text, slipped(slip, c, dy)});
    dx.views = {
        {"dx", {{"b", c.B, c.T * row}, {"t", c.T, row}, {"h", c.heads, c.D}, {"d", c.D, 1}}},
        {"v, after q and k", {{"b", c.B, c.T * row}, {"t", c.T, row}, {"i", c.behind(), 1}}, c.heads * c.D}};
    judge.test(c.title, {}, {dx}, [&](auto out) {
      textbook::rope_backward<double>(out[0], {theta, c.rotated}, textbook::positions(c.B, c.T), c.heads, c.D, row);
    });
  }
}

}  // namespace

const std::vector<Exercise> exercises = {{"rope", backward}};

}  // namespace exercise
