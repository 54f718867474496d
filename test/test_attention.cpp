#include "layers/attention/attention.hpp"

#include "check.hpp"
#include "reference.hpp"

namespace {

constexpr double kTolerance = 1e-6;  // measured: at most 3.4e-7
constexpr int kLayer = 2;

struct Result {
  std::vector<float> out, lse, dqkv;
};

Result run(const AttentionShape& s, const std::vector<float>& qkv, const std::vector<float>& dout,
           const Dropout& dropout = {}) {
  Result r{garbage(dout.size()), garbage(s.B * s.n_head * s.T), garbage(qkv.size())};
  attention_forward(r.out.data(), r.lse.data(), qkv.data(), s, dropout, kLayer);
  attention_backward(r.dqkv.data(), dout.data(), r.out.data(), r.lse.data(), qkv.data(), s, dropout, kLayer);
  return r;
}

std::vector<float> random_qkv(const AttentionShape& s) {
  return random_floats(s.B * s.T * s.qkv_width(), 1, 0, 1.5f);
}
std::vector<float> random_dout(const AttentionShape& s) { return random_floats(s.B * s.T * s.width(), 2); }

}  // namespace

TEST_CASE("attention agrees with PyTorch", "[attention]") {
  for (const std::string& name : Reference::cases("attention")) {
    const Reference ref("attention", name);
    const AttentionShape shape{ref.integer("B"), ref.integer("T"), ref.integer("H"), ref.integer("KV"),
                               ref.integer("D")};
    const Result r = run(shape, ref.floats("qkv"), ref.floats("dout"));
    check_close("attention/" + name + "/out", r.out, ref.doubles("out"), kTolerance);
    check_close("attention/" + name + "/dqkv", r.dqkv, ref.doubles("dqkv"), kTolerance, ref.scale("dqkv"));
  }
}

TEST_CASE("attention is the same for any number of threads", "[attention]") {
  for (const AttentionShape& s : {AttentionShape{3, 70, 4, 2, 17}, {1, 200, 2, 1, 8}})
    check_same_for_all_threads([&] {
      const Result r = run(s, random_qkv(s), random_dout(s), {.p = .1f});
      return joined({r.out, r.lse, r.dqkv});
    });
}

TEST_CASE("attention does not see the future", "[attention]") {
  const AttentionShape s{1, 100, 2, 1, 8};
  const std::vector<float> qkv = random_qkv(s);
  const Result r = run(s, qkv, random_dout(s));
  for (const int t : {1, 40, 64, 99}) {  // replace position t and all later ones
    std::vector<float> other = qkv;
    for (int i = t * s.qkv_width(); i < int(other.size()); ++i) other[i] = 1e6f;
    const std::vector<float> out = run(s, other, random_dout(s)).out;
    CHECK(same_bits(std::span(out).first(t * s.width()), std::span(r.out).first(t * s.width())));
    // Gradients of earlier outputs do not reach them either.
    std::vector<float> dout = random_dout(s);
    std::fill(dout.begin() + t * s.width(), dout.end(), 0.f);
    const std::vector<float> dqkv = run(s, qkv, dout).dqkv;
    for (const float d : std::span(dqkv).subspan(t * s.qkv_width())) REQUIRE(d == 0);
  }
}
