// Cross attention: the fast layer against the textbook, which test_textbook.cpp certifies.

#include <array>

#include "layers/attention/attention.hpp"
#include "layers/textbook/cross_attention.hpp"
#include "layers/textbook/dropout.hpp"
#include "reference.hpp"
#include "sources.hpp"
#include "textbook.hpp"

namespace {

constexpr double kTolerance = 1e-6;

struct Sizes {
  int B, T, S, H, KV, D;
};

textbook::CrossShape book_shape(const Sizes& s, const Sources& sources, float cap) {
  return {size_t(s.B), size_t(s.T), size_t(s.S), size_t(s.H), size_t(s.KV), size_t(s.D), sources.from.data(),
          sources.to.data(), {.cap = cap}};
}

AttentionShape fast_shape(const Sizes& s, const Sources& sources, float cap) {
  return {.B = s.B, .T = s.T, .n_head = s.H, .kv_heads = s.KV, .head_dim = s.D, .cap = cap, .causal = false,
          .sources = s.S, .from = sources.from.data(), .to = sources.to.data()};
}

struct Result {
  std::vector<float> out, lse, dq, dkv;
  std::vector<float> all() const { return joined({out, lse, dq, dkv}); }
};

Result run(const Sizes& s, const AttentionShape& shape, const std::vector<float>& q, const std::vector<float>& kv,
           const std::vector<float>& dout, const Dropout& dropout) {
  const size_t width = 2 * size_t(s.KV) * s.D, q_width = size_t(s.H) * s.D;
  Result r{garbage(q.size()), garbage(s.B * s.H * s.T), garbage(q.size()), garbage(kv.size())};
  const QkvRows<const float> x{q.data(), kv.data(), kv.data() + width / 2, q_width, width};
  attention_forward(r.out.data(), r.lse.data(), x, shape, dropout, 2);
  attention_backward({r.dq.data(), r.dkv.data(), r.dkv.data() + width / 2, q_width, width}, dout.data(), r.out.data(),
                     r.lse.data(), x, shape, dropout, 2);
  return r;
}

void compare(const Sizes& s, float p, float cap) {
  const Sources sources = random_sources(s.B, s.T, s.S, 5);
  const std::vector<float> q = random_floats(s.B * s.T * s.H * s.D, 1, 0, 1.5f), dout = random_floats(int(q.size()), 2);
  const std::vector<float> kv = random_floats(s.B * s.S * 2 * s.KV * s.D, 3, 0, 1.5f);
  const Dropout dropout{p, 11, 12, 13};
  const Result r = run(s, fast_shape(s, sources, cap), q, kv, dout, dropout);

  const textbook::CrossShape shape = book_shape(s, sources, cap);
  const Doubles m = textbook::attention_multipliers<double>(dropout, 2, DropoutSite::cross, s.B, s.H, s.T, s.S);
  const Doubles wide_q = widen(q), wide_kv = widen(kv);
  Doubles out(q.size()), P(m.size()), dq(q.size()), dkv(kv.size());
  textbook::cross_attention_forward<double>(out.data(), P.data(), wide_q.data(), wide_kv.data(), m.data(), shape);
  textbook::cross_attention_backward(dq.data(), dkv.data(), widen(dout).data(), P.data(), wide_q.data(),
                                     wide_kv.data(), m.data(), shape);
  const std::string name = "cross attention vs textbook" + at({s.T, s.S, s.H, s.KV, s.D}) + (p > 0 ? "dropout/" : "") +
                           (cap > 0 ? "cap/" : "");
  check_close(name + "out", r.out, out, kTolerance);
  check_close(name + "dkv", r.dkv, dkv, kTolerance);
  if (s.S > 2) check_close(name + "dq", r.dq, dq, kTolerance);  // with one key, P is 1 for any q
}

}  // namespace

TEST_CASE("cross attention agrees with the textbook", "[attention][cross][textbook]") {
  for (const int T : {1, 7, 64, 65, 130})
    for (const int S : {1, 5, 64, 67, 200})
      for (const auto& [H, KV, D] : {std::array{2, 2, 5}, {4, 2, 16}})
        for (const float p : {0.f, .3f}) compare({3, T, S, H, KV, D}, p, T == 65 ? 2 : 0);
}

TEST_CASE("cross attention agrees with PyTorch", "[attention][cross]") {
  for (const std::string& name : Reference::cases("cross_attention")) {
    const Reference ref("cross_attention", name);
    const Sizes s{ref.integer("B"), ref.integer("T"), ref.integer("S"), ref.integer("H"), ref.integer("KV"),
                  ref.integer("D")};
    Sources sources{s.B, s.T, s.S, {}, {}, ref.ints("from"), ref.ints("to")};
    AttentionShape shape = fast_shape(s, sources, static_cast<float>(ref.number("cap")));
    shape.scale = static_cast<float>(ref.number("scale"));
    const size_t q_width = size_t(s.H) * s.D, width = size_t(s.KV) * s.D;
    const std::vector<float> q = ref.floats("q"), k = ref.floats("k"), v = ref.floats("v"), dout = ref.floats("dout");
    std::vector<float> out(q.size()), lse(s.B * s.H * s.T), dq(q.size()), dk(k.size()), dv(v.size());
    const QkvRows<const float> x{q.data(), k.data(), v.data(), q_width, width};
    attention_forward(out.data(), lse.data(), x, shape, {}, 0);
    attention_backward({dq.data(), dk.data(), dv.data(), q_width, width}, dout.data(), out.data(), lse.data(), x, shape,
                       {}, 0);
    const std::string title = "cross attention/" + name + "/";
    check_close(title + "out", out, ref.doubles("out"), kTolerance);
    check_close(title + "dq", dq, ref.doubles("dq"), kTolerance, ref.scale("dq"));
    check_close(title + "dk", dk, ref.doubles("dk"), kTolerance, ref.scale("dk"));
    check_close(title + "dv", dv, ref.doubles("dv"), kTolerance, ref.scale("dv"));
  }
}

TEST_CASE("cross attention gives the same bits for any number of threads", "[attention][cross][threads]") {
  for (const int B : {1, 3}) {
    const Sizes s{B, 150, 140, 2, 1, 8};
    const Sources sources = random_sources(s.B, s.T, s.S, 5);
    const std::vector<float> q = random_floats(s.B * s.T * s.H * s.D, 1), dout = random_floats(int(q.size()), 2);
    const std::vector<float> kv = random_floats(s.B * s.S * 2 * s.KV * s.D, 3);
    check_same_for_all_threads(
        [&] { return run(s, fast_shape(s, sources, 0), q, kv, dout, {.3f, 11, 12, 13}).all(); });
  }
}

TEST_CASE("keys that no query sees have no gradient", "[attention][cross]") {
  const Sizes s{1, 3, 130, 1, 1, 4};
  Sources sources = random_sources(s.B, s.T, s.S, 5);
  sources.from = {2, 2, 5}, sources.to = {5, 5, 9};
  const std::vector<float> q = random_floats(s.T * s.D, 1), dout = random_floats(s.T * s.D, 2);
  const std::vector<float> kv = random_floats(s.S * 2 * s.D, 3);
  const Result r = run(s, fast_shape(s, sources, 0), q, kv, dout, {});
  for (int j = 0; j < s.S; ++j)
    for (int i = 0; i < 2 * s.D; ++i) {
      const bool zero = r.dkv[size_t(j) * 2 * s.D + i] == 0;
      if (zero == (j >= 2 && j < 9)) FAIL("key " << j << ", number " << i);
    }
  SUCCEED();
}
