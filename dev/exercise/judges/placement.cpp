#include "dev/exercise/check.hpp"
#include "layers/config/base_model.cpp"
#include "layers/config/enum_names.cpp"
#include "layers/config/placements.cpp"

namespace exercise {
namespace {

template <class F>
Doubles by_depth(F f) {
  Doubles values;
  for (int L = 1; L <= 100; ++L) values.push_back(f(L));
  return values;
}

// DeepNet (Wang et al. 2022, arXiv 2203.00555), the table in fig. 2.
void deepnorm(Judge& judge) {
  const Placement& row = placement_row("deepnorm");
  const auto flag = [](const char* name, bool want, const char* otherwise = "") {
    return written(name, {}, {double(want)}, {{otherwise, {double(!want)}}});
  };
  judge.test("which norms there are, 1 yes and 0 no", {},
             {flag("norm_in", false), flag("norm_inner", false),
              flag("norm_out", false, "norm_out is for F(x) alone: DeepNorm's norm is around the sum"),
              flag("norm_sum", true, "the norm around the sum α·x + F(x) is norm_sum"),
              flag("final_norm", false, "the last branch ends in norm_sum: nothing is left to be normalized")},
             [&](auto out) {
               const bool norms[] = {row.norm_in, row.norm_inner, row.norm_out, row.norm_sum, row.final_norm};
               for (size_t i = 0; i < 5; ++i) *out[i] = norms[i];
             });

  const std::vector<Letter> depth = {{"L", 100, 1, 1}};
  const std::string blocks = "L instead of 2L: each block has two branches",
                    other = "that is the decoder of an encoder-decoder: this one has no encoder",
                    glm = "that is GLM-130B's, which takes square roots",
                    quarter = "the power is 1 / 4, which is 0 in C++";
  const auto tabulate = [](double* out, double (*f)(const Depth&), int other = 0, StackKind stack = StackKind::alone) {
    for (int L = 1; L <= 100; ++L) out[L - 1] = f({L, other, stack});
  };
  const auto alpha = by_depth([](double L) { return std::pow(2 * L, .25); });
  judge.test(
      "alpha, the row's skip: (2L)^¼ is 2 at L=8", {},
      {written("skip", depth, alpha,
               {{"1 at every depth: the row does not name deepnorm_alpha, or not as its skip; or " + quarter,
                 Doubles(100, 1)},
                {glm, by_depth([](double L) { return std::pow(2 * L, .5); })},
                {blocks, by_depth([](double L) { return std::pow(L, .25); })},
                {"its inverse", by_depth([](double L) { return std::pow(2 * L, -.25); })},
                {other, by_depth([](double L) { return std::pow(3 * L, .25); })}})},
      [&](auto out) { tabulate(out[0], row.skip); });

  const auto beta = by_depth([](double L) { return std::pow(8 * L, -.25); });
  judge.test("beta, the gain of its initialization", {},
             {written("xavier", {}, {1}),
              written("gain", depth, beta,
                      {{"1 at every depth: the row does not name kDeepNet; or " + quarter, Doubles(100, 1)},
                       {"the wrong way up: it is to make the matrices smaller",
                        by_depth([](double L) { return std::pow(8 * L, .25); })},
                       {glm, by_depth([](double L) { return std::pow(2 * L, -.5); })},
                       {"that is 1/alpha: beta has (8L)", by_depth([](double L) { return std::pow(2 * L, -.25); })},
                       {other, by_depth([](double L) { return std::pow(12 * L, -.25); })}})},
             [&](auto out) {
               *out[0] = row.init.base == Base::xavier;
               tabulate(out[1], row.init.gain);
             });

  const auto mixed = [](double factor, double power) {
    return [=](double N) { return factor * std::pow(std::pow(N, 4) * 6, power); };
  };
  for (const bool decoder : {true, false})
    judge.test(decoder ? "a decoder of M blocks" : "an encoder of N blocks, for a decoder of 6", {},
               {written("skip", depth, decoder ? by_depth([](double M) { return std::pow(3 * M, .25); })
                                               : by_depth(mixed(.81, 1. / 16))),
                written("gain", depth, decoder ? by_depth([](double M) { return std::pow(12 * M, -.25); })
                                               : by_depth(mixed(.87, -1. / 16)))},
               [&](auto out) {
                 const StackKind stack = decoder ? StackKind::decoder : StackKind::encoder;
                 tabulate(out[0], row.skip, 6, stack);
                 tabulate(out[1], row.init.gain, 6, stack);
               });

  judge.test("nothing else", {}, {written("gain λ", {}, {0}), written("in_scale", depth, Doubles(100, 1))},
             [&](auto out) {
               *out[0] = row.gain != LearnedGain::none;
               for (int layer = 0; layer < 100; ++layer) out[1][layer] = row.in_scale(layer);
             });
}

}  // namespace

const std::vector<Exercise> exercises = {{"placement", deepnorm}};

}  // namespace exercise
