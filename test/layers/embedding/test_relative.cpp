// T5's relative positions: their buckets, and attention with their biases.

#include <array>
#include <cstdlib>

#include "attention_result.hpp"
#include "layers/textbook/attention.hpp"
#include "layers/textbook/dropout.hpp"
#include "packed.hpp"
#include "reference.hpp"
#include "textbook.hpp"

namespace {

constexpr double kTolerance = 1e-6;

// A table of biases, and attention that adds them.
struct Biased {
  Config config;
  RelativeBuckets buckets;
  std::vector<float> table, biases;  // (buckets,H) (H,distances)
  AttentionShape shape;
  std::vector<float> dtable;

  Biased(const AttentionShape& of, int count, int farthest, std::vector<float> weight = {})
      : config(config_of(of, count, farthest)), buckets(config),
        table(weight.empty() ? random_floats(count * of.n_head, 5) : std::move(weight)),
        biases(garbage(RelativeBuckets::size(config) * of.n_head)), shape(of), dtable(table.size()) {
    fill(0, of.T);
    shape.relative = buckets.bias(biases.data());
  }
  static Config config_of(const AttentionShape& of, int count, int farthest) {
    Config c;
    c.position = Position::relative, c.relative_buckets = count, c.relative_distance = farthest;
    c.attention = of.causal ? Attending::causal : Attending::bidirectional;
    c.context = of.T;
    return c;
  }
  void fill(int past, int T) { buckets.fill(biases.data(), table.data(), shape.n_head, past, T); }
  textbook::RelativeRule rule() const {
    return {size_t(config.relative_buckets), double(config.relative_distance), config.causal()};
  }

  // Adds to dtable.
  AttentionResult run(const std::vector<float>& qkv, const std::vector<float>& dout, const Dropout& dropout = {}) {
    AttentionResult r{garbage(dout.size()), garbage(shape.B * shape.n_head * shape.T), garbage(qkv.size()), {}};
    attention_forward(r.out.data(), r.lse.data(), qkv.data(), shape, dropout, 2);
    attention_backward({parts_of(r.dqkv.data(), shape), dtable.data()}, dout.data(), r.out.data(), r.lse.data(),
                       parts_of(qkv.data(), shape), shape, dropout, 2);
    return r;
  }
};

std::vector<float> random_qkv(const AttentionShape& s) {
  return random_floats(size_t(s.B) * s.T * s.qkv_width(), 1, 0, 1.5f);
}
std::vector<float> random_dout(const AttentionShape& s) { return random_floats(size_t(s.B) * s.T * s.width(), 2); }

void compare_with_textbook(const AttentionShape& of, const textbook::Scoring& scoring, float p, int count,
                           const std::string& what) {
  Biased fast(of, count, 20);
  const AttentionShape& s = fast.shape;
  const std::vector<float> qkv = random_qkv(s), dout = random_dout(s);
  const Dropout dropout{p, 11, 12, 13};
  const AttentionResult r = fast.run(qkv, dout, dropout);

  const Doubles m =
      textbook::attention_multipliers<double>(dropout, 2, DropoutSite::attention, s.B, s.n_head, s.T, s.T);
  const Doubles wide = widen(qkv);
  Doubles out(dout.size()), P(m.size()), dqkv(qkv.size()), table = widen(fast.table), dtable(table.size());
  const textbook::AttentionShape sizes{size_t(s.B), size_t(s.T), size_t(s.n_head), size_t(s.kv_heads),
                                       size_t(s.head_dim)};
  textbook::attention_forward<double>(out.data(), P.data(), wide.data(), m.data(), sizes, scoring, nullptr,
                                      {table.data(), fast.rule()});
  textbook::attention_backward<double>(dqkv.data(), widen(dout).data(), P.data(), wide.data(), m.data(), sizes, scoring,
                                       {dtable.data(), fast.rule()});
  const std::string name =
      "relative attention vs textbook" + at({s.T, s.n_head, s.kv_heads, s.head_dim, count}) + what + "/";
  check_close(name + "out", r.out, out, kTolerance);
  if (s.T == 1) return;  // P is 1 for any q, k and table
  check_close(name + "dqkv", r.dqkv, dqkv, kTolerance);
  check_close(name + "dtable", fast.dtable, dtable, 3 * kTolerance);  // 8.7e-7: dS adds up to 0 over all buckets
}

}  // namespace

TEST_CASE("buckets of distances are T5's", "[relative][position]") {
  for (const std::string& name : Reference::cases("relative_attention")) {
    INFO(name);
    const Reference ref("relative_attention", name);
    const int T = ref.integer("T"), count = ref.integer("buckets");
    AttentionShape shape{1, T, 1, 1, 1};
    shape.causal = ref.integer("bidirectional") == 0;
    std::vector<float> numbers(count);
    for (int b = 0; b < count; ++b) numbers[b] = float(b);
    const Biased biased(shape, count, ref.integer("distance"), numbers);
    const std::vector<int> want = ref.ints("buckets");  // of the distances 1 − T, ..., T − 1
    for (int d = 1 - T; d < T; ++d) {
      CHECK(biased.shape.relative.buckets[d] == want[d + T - 1]);
      CHECK(biased.shape.relative.of(0)[d] == float(want[d + T - 1]));
      if (shape.causal && d < 0) continue;  // no query sees such a key
      CHECK(int(textbook::relative_bucket(std::max(d, 0), std::max(-d, 0), biased.rule())) == want[d + T - 1]);
    }
  }
}

TEST_CASE("attention with relative positions agrees with PyTorch", "[relative][attention]") {
  for (const std::string& name : Reference::cases("relative_attention")) {
    const Reference ref("relative_attention", name);
    const std::vector<int> begins = ref.ints("begins");
    AttentionShape shape{ref.integer("B"), ref.integer("T"), ref.integer("H"), ref.integer("KV"), ref.integer("D")};
    shape.scale = static_cast<float>(ref.number("scale")), shape.begins = begins.data();
    shape.causal = ref.integer("bidirectional") == 0;
    Biased biased(shape, ref.integer("buckets"), ref.integer("distance"), ref.floats("table"));
    const AttentionResult r = biased.run(ref.floats("qkv"), ref.floats("dout"));
    const std::string title = "relative attention/" + name + "/";
    check_close(title + "out", r.out, ref.doubles("out"), kTolerance);
    check_close(title + "dqkv", r.dqkv, ref.doubles("dqkv"), kTolerance, ref.scale("dqkv"));
    check_close(title + "dtable", biased.dtable, ref.doubles("dtable"), kTolerance, ref.scale("dtable"));
  }
}

TEST_CASE("attention with relative positions agrees with the textbook", "[relative][attention][textbook]") {
  for (const int T : {1, 7, 64, 65, 130})
    for (const auto& [H, KV, D] : {std::array{2, 2, 5}, {4, 2, 16}})
      for (const bool causal : {true, false})
        for (const float p : {0.f, .3f})
          for (const int count : {6, 32}) {
            AttentionShape s{2, T, H, KV, D};
            s.causal = causal;
            const std::string what = std::string(causal ? "causal" : "bidirectional") + (p > 0 ? "/dropout" : "");
            compare_with_textbook(s, {.causal = causal}, p, count, what);
            s.cap = 2, s.window = 40, s.scale = .4f;
            compare_with_textbook(s, {.scale = s.scale, .cap = 2, .window = 40, .causal = causal}, p, count,
                                  what + "/all");
          }
}

TEST_CASE("attention with relative positions in rows of several examples", "[relative][attention][textbook]") {
  for (const bool causal : {true, false}) {
    AttentionShape s{kPacked.B, kPacked.T, 2, 1, 5};
    s.causal = causal, s.begins = kPacked.begins.data();
    compare_with_textbook(s, {.begins = s.begins, .causal = causal}, 0, 32, "packed");
  }
}

TEST_CASE("attention with relative positions is the same for any number of threads", "[relative][attention]") {
  for (const int H : {1, 4})  // with few heads, tiles of queries and tiles of keys are separate tasks
    for (const bool causal : {true, false}) {
      AttentionShape s{1, 200, H, 1, 7};
      s.causal = causal;
      const std::vector<float> qkv = random_qkv(s), dout = random_dout(s);
      check_same_for_all_threads([&] {
        Biased biased(s, 32, 128);
        const AttentionResult r = biased.run(qkv, dout, {.p = .1f});
        return joined({r.all(), biased.dtable, biased.biases});
      });
    }
}

TEST_CASE("relative positions of 0 have the bits of no positions, and gradients are added", "[relative][attention]") {
  for (const bool causal : {true, false}) {
    AttentionShape s{2, 130, 2, 1, 6};
    s.causal = causal;
    const std::vector<float> qkv = random_qkv(s), dout = random_dout(s);
    Biased zeros(s, 32, 128, std::vector<float>(32 * 2));
    CHECK(same_bits(zeros.run(qkv, dout).all(), run(s, qkv, dout).all()));
    const std::vector<float> once = zeros.dtable;
    zeros.run(qkv, dout);
    for (size_t i = 0; i < once.size(); ++i) CHECK(zeros.dtable[i] == 2 * once[i]);
  }
}

TEST_CASE("queries after past keys have the scores of their distances", "[relative][attention]") {
  AttentionShape s{1, 150, 2, 1, 6};
  Biased whole(s, 32, 20);
  const std::vector<float> qkv = random_qkv(s);
  const std::vector<float> want = whole.run(qkv, random_dout(s)).out;
  const size_t width = s.width(), kv_width = 2 * size_t(s.kv_heads) * s.head_dim;
  for (const int T : {1, 5, 70}) {
    const int past = s.T - T;
    std::ranges::fill(whole.biases, NAN);
    whole.fill(past, T);
    AttentionShape last = whole.shape;
    last.T = T;
    std::vector<float> out(T * width), lse(s.n_head * T);
    const float* k = qkv.data() + width;
    attention_forward(out.data(), lse.data(), &qkv[past * s.qkv_width()], s.qkv_width(),
                      {k, k + kv_width / 2, size_t(s.qkv_width()), past, size_t(s.T)}, last, {}, 0);
    check_close("relative attention after past keys" + at({T}), out,
                widen(std::span(want).subspan(past * width)), kTolerance);
  }
}

TEST_CASE("textbook attention with relative positions is certified", "[relative][textbook]") {
  using Complex = std::complex<double>;
  constexpr double h = 1e-50;
  const size_t B = 2, T = 7, H = 4, KV = 2, D = 3, count = 6;
  const textbook::AttentionShape shape{B, T, H, KV, D};
  const Doubles qkv = random_doubles(B * T * (H + 2 * KV) * D, 1), table = random_doubles(count * H, 4);
  const Doubles dy = random_doubles(B * T * H * D, 2), m = random_doubles(B * H * T * T, 3);
  for (const auto& [name, scoring] : scorings(H, 3)) {
    const textbook::RelativeRule rule{count, 5, scoring.causal};
    Doubles out(dy.size()), P(m.size()), dqkv(qkv.size()), dtable(table.size()), weight = table;
    textbook::attention_forward<double>(out.data(), P.data(), qkv.data(), m.data(), shape, scoring, nullptr,
                                        {weight.data(), rule});
    textbook::attention_backward<double>(dqkv.data(), dy.data(), P.data(), qkv.data(), m.data(), shape, scoring,
                                         {dtable.data(), rule});
    const std::vector<Complex> x(qkv.begin(), qkv.end()), multiplier(m.begin(), m.end());
    for (size_t i = 0; i < table.size(); ++i) {
      std::vector<Complex> stepped(table.begin(), table.end()), y(dy.size()), p(m.size());
      stepped[i] += Complex(0, h);
      textbook::attention_forward<Complex>(y.data(), p.data(), x.data(), multiplier.data(), shape, scoring, nullptr,
                                           {stepped.data(), rule});
      double slope = 0;
      for (size_t n = 0; n < y.size(); ++n) slope += dy[n] * y[n].imag() / h;
      check_error("complex step, relative attention/" + name, std::fabs(slope - dtable[i]) / norm_of(dtable), 1e-13);
    }
  }
}

TEST_CASE("refused settings of relative positions", "[relative][config]") {
  const auto refusal = [](Config c) -> std::string {
    c.vocab_size = 9, c.position = Position::relative;
    try {
      resolve(c);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  Config c;
  c.relative_distance = 16;
  CHECK(refusal(c).starts_with("relative-distance 16 is not above 16"));
  c.objective = Objective::mlm;  // half of the buckets for each direction
  CHECK(refusal(c) == "");
  c.relative_buckets = 3;
  CHECK(refusal(c) == "relative-buckets is 3: must be 4 to 4096");
}
