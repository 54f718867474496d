// Attention, plain and with options for its scores (scale, cap, ALiBi, window).

#include "attention_result.hpp"
#include "check.hpp"
#include "layers/attention/attention.hpp"
#include "layers/embedding/position.hpp"
#include "layers/kernels/gemm.hpp"
#include "layers/kernels/numbers.hpp"
#include "reference.hpp"

namespace {

constexpr double kTolerance = 1e-6;  // measured: at most 3.4e-7
constexpr double kWords = 6e-3;      // P and dS in bf16; measured: at most 3.0e-3
constexpr double kSums = 5e-6;       // over all queries, whose terms cancel; measured: at most 1.8e-6

std::vector<float> random_qkv(const AttentionShape& s) { return random_floats(s.B * s.T * s.qkv_width(), 1, 0, 1.5f); }
std::vector<float> random_dout(const AttentionShape& s) { return random_floats(s.B * s.T * s.width(), 2); }
AttentionResult random_run(const AttentionShape& s, float dropout = 0) {
  return run(s, random_qkv(s), random_dout(s), {.p = dropout});
}

template <class Change>
AttentionShape with(AttentionShape shape, Change change) {
  change(shape);
  return shape;
}

// One tile, several tiles, and fewer heads than threads.
const std::vector<AttentionShape> kShapes = {{2, 17, 4, 2, 7}, {3, 70, 4, 2, 17}, {1, 200, 2, 1, 8}, {1, 64, 3, 3, 5}};

}  // namespace

TEST_CASE("attention agrees with PyTorch", "[attention]") {
  for (const std::string& name : Reference::cases("attention")) {
    const Reference ref("attention", name);
    const AttentionShape shape{ref.integer("B"), ref.integer("T"), ref.integer("H"), ref.integer("KV"),
                               ref.integer("D")};
    const AttentionResult r = run(shape, ref.floats("qkv"), ref.floats("dout"));
    check_close("attention/" + name + "/out", r.out, ref.doubles("out"), kTolerance);
    check_close("attention/" + name + "/dqkv", r.dqkv, ref.doubles("dqkv"), kTolerance, ref.scale("dqkv"));
  }
}

TEST_CASE("attention is the same for any number of threads", "[attention]") {
  for (const AttentionShape& s : {AttentionShape{3, 70, 4, 2, 17}, {1, 200, 2, 1, 8}})
    check_same_for_all_threads([&] { return random_run(s, .1f).all(); });
}

TEST_CASE("attention does not see the future", "[attention]") {
  const AttentionShape s{1, 100, 2, 1, 8};
  const std::vector<float> qkv = random_qkv(s);
  const AttentionResult r = run(s, qkv, random_dout(s));
  for (const int t : {1, 40, 64, 99}) {  // replace position t and all later ones
    std::vector<float> other = qkv;
    for (int i = t * s.qkv_width(); i < int(other.size()); ++i) other[i] = 1e6f;
    const std::vector<float> out = run(s, other, random_dout(s)).out;
    CHECK(same_bits(std::span(out).first(t * s.width()), std::span(r.out).first(t * s.width())));
    // Gradients of earlier outputs must not reach them.
    std::vector<float> dout = random_dout(s);
    std::fill(dout.begin() + t * s.width(), dout.end(), 0.f);
    const std::vector<float> dqkv = run(s, qkv, dout).dqkv;
    for (const float d : std::span(dqkv).subspan(t * s.qkv_width())) REQUIRE(d == 0);
  }
}

// ---- options for scores ------------------------------------------------------------------------------------

TEST_CASE("attention with scale, cap, ALiBi, window and sinks agrees with PyTorch", "[attention]") {
  for (const std::string& name : Reference::cases("scores")) {
    const Reference ref("scores", name);
    const int H = ref.integer("H");
    const Buffer slopes = alibi_slopes(H);
    AttentionShape shape{1, ref.integer("T"), H, ref.integer("KV"), ref.integer("D")};
    shape.scale = static_cast<float>(ref.number("scale")), shape.cap = static_cast<float>(ref.number("cap"));
    shape.window = ref.integer("window"), shape.slopes = ref.integer("alibi") ? slopes.get() : nullptr;
    const bool has_sinks = name.ends_with("sinks");
    const std::vector<float> sinks = has_sinks ? ref.floats("sinks") : std::vector<float>();
    if (has_sinks) shape.sinks = sinks.data();
    const AttentionResult r = run(shape, ref.floats("qkv"), ref.floats("dout"));
    check_close("scores/" + name + "/out", r.out, ref.doubles("out"), kTolerance);
    check_close("scores/" + name + "/dqkv", r.dqkv, ref.doubles("dqkv"), kTolerance, ref.scale("dqkv"));
    if (has_sinks)
      check_close("scores/" + name + "/dsinks", r.dsinks, ref.doubles("dsinks"), kSums, ref.scale("dsinks"));
  }
}

TEST_CASE("attention with sinks is the same for any number of threads", "[attention]") {
  const float sinks[] = {2, -1, 0, .5f};
  for (AttentionShape s : kShapes) {
    s.sinks = sinks;
    for (const int window : {0, 5, 66}) {
      s.window = window;
      check_same_for_all_threads([&] { return random_run(s, .1f).all(); });
    }
  }
}

TEST_CASE("sinks far below all scores have the bits of none, and sinks far above leave nothing", "[attention]") {
  const std::vector<float> low(4, -1e30f), high(4, 1e30f);
  for (const AttentionShape& s : kShapes) {
    const AttentionResult none = random_run(s, .1f);
    const AttentionResult below = random_run(with(s, [&](auto& c) { c.sinks = low.data(); }), .1f);
    CHECK(same_bits(joined({below.out, below.lse, below.dqkv}), none.all()));
    for (const float d : below.dsinks) CHECK(d == 0);
    for (const float x : random_run(with(s, [&](auto& c) { c.sinks = high.data(); }), .1f).out) REQUIRE(x == 0);
  }
}

TEST_CASE("attention with scale, cap, ALiBi and window is the same for any number of threads", "[attention]") {
  const Buffer slopes = alibi_slopes(4);
  for (AttentionShape s : kShapes) {
    s.scale = .5f, s.cap = 2, s.slopes = slopes.get();
    for (const int window : {0, 1, 5, 64, 66}) {
      s.window = window;
      check_same_for_all_threads([&] { return random_run(s, .1f).all(); });
    }
  }
}

TEST_CASE("ALiBi with slopes of 0 has the bits of no ALiBi", "[attention]") {
  const float zeros[4] = {};
  for (const AttentionShape& s : kShapes)
    CHECK(same_bits(random_run(with(s, [&](auto& c) { c.slopes = zeros; }), .1f).all(), random_run(s, .1f).all()));
}

TEST_CASE("a window of at least T has the bits of no window", "[attention]") {
  for (const AttentionShape& s : kShapes)
    for (const int more : {0, 1, 1000}) {
      const AttentionShape wide = with(s, [&](auto& c) { c.window = s.T + more; });
      CHECK(same_bits(random_run(wide, .1f).all(), random_run(s, .1f).all()));
    }
}

TEST_CASE("attention with a window of one key returns that key's value", "[attention]") {
  const AttentionShape s{1, 70, 2, 2, 5, .5f, 0, 1};
  const std::vector<float> qkv = random_qkv(s);
  const AttentionResult r = random_run(s);
  for (int t = 0; t < s.T; ++t)
    for (int i = 0; i < s.width(); ++i) REQUIRE(r.out[t * s.width() + i] == qkv[t * s.qkv_width() + 2 * s.width() + i]);
}

TEST_CASE("attention does not see keys before its window", "[attention]") {
  for (const int window : {1, 3, 64, 70}) {
    const AttentionShape s{1, 150, 2, 1, 8, .4f, 0, window};
    const std::vector<float> qkv = random_qkv(s);
    const AttentionResult r = random_run(s);
    for (const int t : {70, 127, 128, 149}) {  // replace everything before query t's window
      std::vector<float> other = qkv, dout(s.T * s.width());
      std::fill_n(other.begin(), (t - window + 1) * s.qkv_width(), 1e6f);
      const std::vector<float> out = run(s, other, random_dout(s)).out;
      CHECK(same_bits(std::span(out).subspan(t * s.width()), std::span(r.out).subspan(t * s.width())));
      // The gradient of query t must not reach it.
      std::fill_n(dout.begin() + t * s.width(), s.width(), 1.f);
      const std::vector<float> dqkv = run(s, qkv, dout).dqkv;
      for (const float d : std::span(dqkv).first((t - window + 1) * s.qkv_width())) REQUIRE(d == 0);
    }
  }
}

// Scores near 2³¹ are 256 apart in float, so e to the power of a rounding error is 0 or infinite.
TEST_CASE("attention is finite for huge scores, and returns the value of the largest", "[attention]") {
  const Buffer slopes = alibi_slopes(4);
  for (AttentionShape s : {AttentionShape{1, 70, 4, 2, 17}, {1, 150, 2, 1, 3}, {1, 30, 2, 2, 48}, {2, 9, 1, 1, 64}})
    for (const float size : {1e2f, 1e3f, 3e4f, 4.6e4f, 1e5f, 1e6f, 1e9f})
      for (const bool alibi : {false, true}) {
        INFO("D " << s.head_dim << ", q and k of size " << size << (alibi ? " with ALiBi" : ""));
        s.slopes = alibi ? slopes.get() : nullptr;
        std::vector<float> qkv = random_qkv(s);
        const int D = s.head_dim, width = s.qkv_width(), group = s.n_head / s.kv_heads;
        for (size_t i = 0; i < qkv.size(); ++i)
          if (int(i % width) < (s.n_head + s.kv_heads) * D) qkv[i] *= size;
        const AttentionResult r = run(s, qkv, random_dout(s));
        for (const float x : r.all()) REQUIRE(std::isfinite(x));
        std::vector<float> cached(s.width()), lse(s.B * s.n_head);
        AttentionShape one = s;
        one.T = 1, one.B = 1;
        const float* keys = qkv.data() + s.width();
        attention_forward(cached.data(), lse.data(), qkv.data() + (s.T - 1) * width, width,
                          {keys, keys + s.kv_heads * D, size_t(width), s.T - 1, size_t(s.T)}, one, {}, 0);
        CHECK(same_bits(cached, std::span(r.out).subspan((s.T - 1) * s.width(), s.width())));
        for (int h = 0; h < s.n_head; ++h)
          for (int i = 0; i < s.T; ++i) {  // in the first sequence
            int best = 0;
            double top = -INFINITY, second = -INFINITY;
            for (int j = 0; j <= i; ++j) {
              double score = alibi ? double(s.slopes[h]) * (j - i) : 0;
              for (int d = 0; d < D; ++d)
                score += double(s.scale) * qkv[i * width + h * D + d] * keys[j * width + h / group * D + d];
              if (score > top) second = top, top = score, best = j;
              else second = std::max(second, score);
            }
            if (top - second < 100 + 1e-4 * std::abs(top)) continue;
            for (int d = 0; d < D; ++d) {
              const float want = keys[best * width + (s.kv_heads + h / group) * D + d];
              REQUIRE(std::abs(r.out[i * s.width() + h * D + d] - want) <= 1e-6f * std::abs(want));
            }
          }
      }
}

TEST_CASE("queries after past keys have the bits of the whole sequence", "[attention][bf16]") {
  for (const bool words : {false, true})
    for (const auto& [T, window] : {std::pair(1, 0), {2, 0}, {63, 0}, {64, 0}, {65, 3}, {150, 0}, {200, 66}}) {
      const AttentionShape s{.B = 1, .T = T, .n_head = 4, .kv_heads = 2, .head_dim = 7, .window = window,
                             .words = words};
      const std::vector<float> qkv = random_qkv(s);
      const AttentionResult whole = random_run(s);
      const auto [q, k, v, q_stride, kv_stride] = parts_of(qkv.data(), s);
      for (const int past : {0, 1, s.T / 2, s.T - 1}) {
        const AttentionShape last = with(s, [&](auto& c) { c.T = s.T - past; });
        std::vector<float> out = garbage(last.T * s.width()), lse = garbage(last.T * s.n_head);
        attention_forward(out.data(), lse.data(), q + past * q_stride, q_stride, {k, v, kv_stride, past, size_t(s.T)},
                          last, {}, 2);
        CHECK(same_bits(out, std::span(whole.out).subspan(past * s.width())));
      }
    }
}

// P and dS are rounded, too, so no formula in float64 has the same numbers.
TEST_CASE("attention on words is close to attention on the same rounded numbers", "[attention][bf16]") {
  const float sinks[] = {2, -1, 0, .5f};
  const Buffer slopes = alibi_slopes(4);
  const auto rounded = [](std::vector<float> x) {
    for (float& f : x) f = widened(::rounded<Bfloat16>(f));
    return x;
  };
  for (AttentionShape s : {AttentionShape{3, 70, 4, 2, 17}, {2, 200, 4, 1, 8}, {1, 130, 4, 4, 64}, {2, 9, 4, 4, 1}})
    for (const int variant : {0, 1, 2, 3, 4}) {
      if (variant == 1) s.sinks = sinks;
      if (variant == 2) s.cap = 2, s.window = 66;
      if (variant == 3) s.slopes = slopes.get();
      if (variant == 4) s.causal = false;
      const AttentionShape words = with(s, [](auto& c) { c.words = true; });
      const std::vector<float> qkv = rounded(random_qkv(s)), dout = rounded(random_dout(s));
      const AttentionResult floats = run(s, qkv, dout, {.p = .1f}), got = run(words, qkv, dout, {.p = .1f});
      const std::string name = "attention on words/" + std::to_string(s.T) + "-" + std::to_string(variant) + "/";
      check_close(name + "out", got.out, widen(floats.out), kWords);
      check_close(name + "lse", got.lse, widen(floats.lse), kTolerance);
      check_close(name + "dqkv", got.dqkv, widen(floats.dqkv), kWords);
      CHECK((got.out != floats.out) == gemm_has_bf16());
      check_same_for_all_threads([&] { return run(words, qkv, dout, {.p = .1f}).all(); });
    }
}

TEST_CASE("a very large cap equals no cap, up to rounding", "[attention]") {
  for (const AttentionShape& s : kShapes) {
    const AttentionResult none = random_run(s), capped = random_run(with(s, [](auto& c) { c.cap = 1e5f; }));
    check_close("large cap/out", capped.out, widen(none.out), kTolerance);  // S³/3c² is below 1e-6
    check_close("large cap/dqkv", capped.dqkv, widen(none.dqkv), kTolerance);
  }
}

TEST_CASE("grouped-query attention is attention with repeated keys and values", "[attention]") {
  for (const int H : {2, 6})
    for (int KV = 1; KV <= H; ++KV) {
      if (H % KV != 0) continue;
      const AttentionShape grouped{2, 70, H, KV, 5}, every{2, 70, H, H, 5};
      const std::vector<float> qkv = random_qkv(grouped), dout = random_dout(grouped);
      const int D = 5, group = H / KV, rows = 2 * 70;
      const auto from = [&](int part, int h) {  // the column in `grouped` of head h of q, k or v of `every`
        return (part == 0 ? h : H + (part - 1) * KV + h / group) * D;
      };
      std::vector<float> wide(rows * every.qkv_width());
      for (int i = 0; i < int(wide.size()); ++i) {
        const int column = i % every.qkv_width(), head = column / D;
        wide[i] = qkv[i / every.qkv_width() * grouped.qkv_width() + from(head / H, head % H) + column % D];
      }
      const AttentionResult a = run(grouped, qkv, dout), b = run(every, wide, dout);
      CHECK(same_bits(a.out, b.out));
      CHECK(same_bits(a.lse, b.lse));
      std::vector<double> sums(a.dqkv.size());  // a shared key's gradient is the sum over its heads
      for (int i = 0; i < int(wide.size()); ++i) {
        const int column = i % every.qkv_width(), head = column / D;
        sums[i / every.qkv_width() * grouped.qkv_width() + from(head / H, head % H) + column % D] += double(b.dqkv[i]);
      }
      check_close("shared heads/dqkv", a.dqkv, sums, kTolerance);
    }
}
