// The fast attention against the textbook, which test_textbook.cpp certifies.

#include <array>
#include <numeric>

#include "textbook.hpp"

namespace {

constexpr double kTolerance = 1e-6;

// Columns begin ... end − 1 of x (rows, width).
template <class Number>
std::vector<Number> columns(const std::vector<Number>& x, int width, int begin, int end) {
  std::vector<Number> slice;
  for (size_t row = 0; row < x.size(); row += width)
    slice.insert(slice.end(), x.begin() + row + begin, x.begin() + row + end);
  return slice;
}

// The fast layer's shape with the textbook's options. Stores ALiBi's slopes in `slopes`.
AttentionShape scored(AttentionShape shape, const textbook::Scoring& scoring, std::vector<float>& slopes,
                      const std::vector<float>& sinks) {
  slopes.assign(scoring.slopes.begin(), scoring.slopes.end());
  if (scoring.scale > 0) shape.scale = static_cast<float>(scoring.scale);
  shape.cap = static_cast<float>(scoring.cap), shape.window = static_cast<int>(scoring.window);
  shape.causal = scoring.causal;
  shape.slopes = slopes.empty() ? nullptr : slopes.data();
  shape.sinks = sinks.empty() ? nullptr : sinks.data();
  return shape;
}

void compare_attention(int T, int H, int KV, int D, float p, const std::string& what = "",
                       const textbook::Scoring& scoring = {}, bool with_sinks = false) {
  const int B = 2, N = B * T, layer = 3;
  const std::vector<float> sinks = random_floats(with_sinks ? H : 0, 3, 0, 2);
  std::vector<float> slopes;
  const AttentionShape shape = scored({B, T, H, KV, D}, scoring, slopes, sinks);
  const Dropout dropout{p, 11, 12, 13};
  const std::string name = "attention vs textbook" + at({T, H, KV, D}) + what +
                           (with_sinks ? "sinks/" : "") + (p > 0 ? "dropout/" : "");
  const int width = shape.qkv_width(), k_at = H * D, v_at = k_at + KV * D;
  const std::vector<float> qkv = random_floats(N * width, 1, 0, 1.5f), dout = random_floats(N * H * D, 2);
  std::vector<float> out = garbage(N * H * D), lse = garbage(B * H * T), dqkv = garbage(N * width);
  const Doubles m = textbook::attention_multipliers<double>(dropout, layer, DropoutSite::attention, B, H, T, T);
  Doubles want(N * H * D), P(m.size()), want_dqkv(N * width);

  attention_forward(out.data(), lse.data(), qkv.data(), shape, dropout, layer);
  const textbook::AttentionShape sizes{size_t(B), size_t(T), size_t(H), size_t(KV), size_t(D)};
  const Doubles wide_sinks = widen(sinks);
  textbook::attention_forward(want.data(), P.data(), widen(qkv).data(), m.data(), sizes, scoring,
                              with_sinks ? wide_sinks.data() : nullptr);
  check_close(name + "out", out, want, kTolerance);

  attention_backward(dqkv.data(), dout.data(), out.data(), lse.data(), qkv.data(), shape, dropout, layer);
  textbook::attention_backward(want_dqkv.data(), widen(dout).data(), P.data(), widen(qkv).data(), m.data(), sizes,
                               scoring);
  const auto compare = [&](const char* part, int begin, int end) {
    check_close(name + part, columns(dqkv, width, begin, end), columns(want_dqkv, width, begin, end), kTolerance);
  };
  compare("dv", v_at, width);
  if (with_sinks) {
    std::vector<float> dsinks(H);
    Doubles want_dsinks(H);
    sinks_backward(dsinks.data(), dout.data(), out.data(), lse.data(), shape);
    textbook::sinks_backward(want_dsinks.data(), widen(dout).data(), want.data(), P.data(), sizes, sizes.T);
    // The terms of a sum over all queries cancel, so its error is measured against their sizes.
    const Doubles wide_dout = widen(dout);
    Doubles terms(H), difference(H);
    for (int row = 0; row < N * H; ++row) {
      const int h = row / T % H, i = row % T, b = row / T / H, at = ((b * T + i) * H + h) * D;
      const double seen = std::accumulate(&P[size_t(row) * T], &P[size_t(row + 1) * T], 0.);
      terms[h] += std::abs((1 - seen) * textbook::dot(&wide_dout[at], &want[at], size_t(D)));
    }
    for (int h = 0; h < H; ++h) difference[h] = static_cast<double>(dsinks[h]) - want_dsinks[h];
    check_error(name + "dsinks", norm_of(difference) / norm_of(terms), kTolerance);
  }
  if (T == 1 || scoring.window == 1)  // P is nearly 1 for any q and k, so dq and dk are 0 up to rounding
    return compare("dqkv", 0, width);
  compare("dq", 0, k_at);
  compare("dk", k_at, v_at);

  if (!scoring.causal) return;

  // Compute only the last queries, with all earlier keys as the past.
  const int past = T / 2, fresh = T - past;
  std::vector<float> late = garbage(fresh * H * D), late_lse = garbage(H * fresh);
  attention_forward(late.data(), late_lse.data(), qkv.data() + past * width, width,
                    {qkv.data() + k_at, qkv.data() + v_at, size_t(width), past, 0},
                    scored({1, fresh, H, KV, D}, scoring, slopes, sinks), {}, 0);
  if (p == 0) check_close(name + "past", late, Doubles(&want[past * H * D], &want[T * H * D]), kTolerance);
}

}  // namespace

TEST_CASE("attention agrees with the textbook", "[attention][textbook]") {
  for (const int T : {1, 7, 17, 33, 63, 64, 65, 130})
    for (const auto& [H, KV, D] : {std::array{1, 1, 4}, {4, 2, 7}, {3, 1, 16}, {2, 2, 33}})
      for (const float p : {0.f, .3f}) compare_attention(T, H, KV, D, p);
  compare_attention(65, 2, 1, 140, .3f);
}

TEST_CASE("attention with sinks agrees with the textbook", "[attention][textbook]") {
  for (const int T : {1, 7, 64, 65, 130})
    for (const auto& [H, KV, D] : {std::array{2, 2, 5}, {4, 2, 16}})
      for (const float p : {0.f, .3f}) {
        compare_attention(T, H, KV, D, p, "", {}, true);
        for (const auto& [what, scoring] : scorings(H, 65))
          compare_attention(T, H, KV, D, p, what + "/", scoring, true);
      }
}

TEST_CASE("attention with scale, cap, ALiBi and window agrees with the textbook", "[attention][textbook]") {
  for (const int T : {1, 7, 64, 65, 130, 200})
    for (const auto& [H, KV, D] : {std::array{2, 2, 5}, {3, 1, 16}})
      for (const int window : {1, 3, 64, 65, 100})
        for (const auto& [what, scoring] : scorings(H, window)) {
          if (window != 3 && scoring.window == 0) continue;
          const std::string name = what + " " + std::to_string(window) + "/";
          for (const float p : {0.f, .3f}) compare_attention(T, H, KV, D, p, name, scoring);
        }
}

TEST_CASE("attention does not overflow for large scores", "[attention][textbook]") {
  const int T = 70, D = 4;
  std::vector<float> qkv = random_floats(T * 3 * D, 1, 0, 30), out = garbage(T * D), lse = garbage(T);
  Doubles want(T * D), P(T * T);
  attention_forward(out.data(), lse.data(), qkv.data(), {1, T, 1, 1, D}, {}, 0);
  textbook::attention_forward<double>(want.data(), P.data(), widen(qkv).data(), nullptr, {1, T, 1, 1, D});
  check_close("attention vs textbook/large scores/out", out, want, 3e-5);  // scores of 1000 are exact to 1e-4
}
