#include "layers/cross_entropy/cross_entropy.hpp"

#include <limits>

#include "check.hpp"
#include "reference.hpp"

namespace {

constexpr double kTolerance = 2e-7;  // measured: at most 5.8e-8

struct Result {
  std::vector<float> losses, dlogits;
};

Result run(const std::vector<float>& logits, const std::vector<int>& targets, float scale, LogitLimits limits = {}) {
  const int N = targets.size(), V = logits.size() / targets.size();
  Result r{garbage(N), garbage(logits.size())};
  cross_entropy(r.losses.data(), r.dlogits.data(), logits.data(), targets.data(), scale, N, V, limits);
  return r;
}

// Returns targets; every fourth is ignored.
std::vector<int> some_targets(int N, int V) {
  std::vector<int> targets = random_ints(N, 7, V);
  for (int n = 1; n < N; n += 4) targets[n] = kIgnore;
  return targets;
}

}  // namespace

TEST_CASE("cross-entropy agrees with PyTorch", "[cross_entropy]") {
  for (const std::string& name : Reference::cases("cross_entropy")) {
    const Reference ref("cross_entropy", name);
    const float scale = static_cast<float>(1 / ref.number("counted"));
    LogitLimits limits;
    if (name == "z-loss") limits.z_loss = static_cast<float>(ref.number("z_loss"));
    if (name == "label-smoothing") limits.smoothing = static_cast<float>(ref.number("smoothing"));
    const Result r = run(ref.floats("logits"), ref.ints("targets"), scale, limits);
    check_close("cross_entropy/" + name + "/losses", r.losses, ref.doubles("losses"), kTolerance);
    check_close("cross_entropy/" + name + "/dlogits", r.dlogits, ref.doubles("dlogits"), kTolerance,
                ref.scale("dlogits"));
    double mean = 0;
    for (const float loss : r.losses) mean += double(loss) / ref.number("counted");
    check_error("cross_entropy/" + name + "/mean", std::abs(mean / ref.number("mean") - 1), kTolerance);
  }
}

TEST_CASE("cross-entropy is finite for large logits and not finite for infinity and NaN", "[cross_entropy]") {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Result r = run({1e4f, -1e4f, 0, 3e38f, -3e38f, 0}, {1, 0}, 1);
  CHECK(r.losses[0] == Approx(2e4));
  CHECK(r.losses[1] == Approx(0));
  CHECK(r.dlogits[0] == 1);
  CHECK(r.dlogits[1] == -1);
  // The next float after 1e8 is 8 away, so adding a small number to such a logit has no effect.
  CHECK(run({1e8f, 1e8f}, {1}, 1).losses[0] == Approx(std::log(2.)));
  for (const float bad : {nan, infinity})
    for (const int at : {0, 3, 20, 32}) {
      std::vector<float> logits = random_floats(33, 1);
      logits[at] = bad;
      CHECK_FALSE(std::isfinite(run(logits, {3}, 1).losses[0]));
    }
}

TEST_CASE("cross-entropy is the same for any number of threads", "[cross_entropy][long]") {
  const int N = 300, C = 9, V = 17000;
  const std::vector<float> x = random_floats(N * C, 1);
  std::vector<float> weight = random_floats(V * C, 2), bias = random_floats(V, 3);
  const std::vector<int> targets = some_targets(N, V);
  std::vector<float> scratch(size_t(classifier_rows(N, V)) * V);
  check_same_for_all_threads([&] {
    std::vector<float> losses = garbage(N), dx = garbage(N * C), dweight(V * C), dbias(V);
    classifier({losses.data(), scratch.data()}, dx.data(), {{dweight.data(), dbias.data()}, {}}, x.data(),
               {{weight.data(), bias.data()}, {.cap = 2}}, targets.data(), 1, {N, C, V});
    return joined({losses, dx, dweight, dbias});
  });
}
