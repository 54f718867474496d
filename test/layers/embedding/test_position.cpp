#include "layers/embedding/position.hpp"

#include "check.hpp"
#include "reference.hpp"

constexpr double kTolerance = 2e-7;  // measured: at most 5.7e-8

TEST_CASE("RoPE agrees with PyTorch", "[position]") {
  for (const std::string& name : Reference::cases("position")) {
    const Reference ref("position", name);
    const int B = ref.integer("B"), T = ref.integer("T"), H = ref.integer("H"), D = ref.integer("D");
    const RopeTable table(T, D, static_cast<float>(ref.number("theta")));
    std::vector<float> y = ref.floats("x"), dx = ref.floats("dy");
    rope_forward(y.data(), table, {B, T}, H, D, H * D);
    check_close("position/" + name + "/y", y, ref.doubles("y"), kTolerance);
    rope_backward(dx.data(), table, {B, T}, H, D, H * D);
    check_close("position/" + name + "/dx", dx, ref.doubles("dx"), kTolerance, ref.scale("dx"));
  }
}

TEST_CASE("RoPE rotates the leading heads of wider rows, and backward undoes it", "[position]") {
  const int B = 2, T = 17, heads = 3, D = 10, stride = heads * D + 7;
  const RopeTable table(T, D, 10000);
  const std::vector<float> before = random_floats(B * T * stride, 1);
  std::vector<float> x = before;
  rope_forward(x.data(), table, {B, T}, heads, D, stride);
  for (int i = 0; i < B * T * stride; ++i) {
    const bool turned = i % stride < heads * D && i / stride % T != 0;
    REQUIRE((x[i] != before[i]) == turned);
  }
  rope_backward(x.data(), table, {B, T}, heads, D, stride);
  check_close("position/there and back/x", x, widen(before), kTolerance);
}

TEST_CASE("RoPE from a later position is the tail of RoPE from the start", "[position]") {
  const int T = 33, first = 20, D = 6;
  const RopeTable table(T, D, 500);
  std::vector<float> all = random_floats(T * D, 1);
  std::vector<float> tail(all.begin() + first * D, all.end());
  rope_forward(all.data(), table, {1, T}, 1, D, D);
  rope_forward(tail.data(), table, {1, T - first, first}, 1, D, D);
  CHECK(same_bits(tail, std::span(all).subspan(first * D)));
}

TEST_CASE("with RoPE, products of queries and keys depend only on their distance", "[position]") {
  const int T = 33, D = 16;
  const RopeTable table(T, D, 10000);
  const std::vector<float> one = random_floats(D, 1), other = random_floats(D, 2);
  std::vector<float> q, k;
  for (int t = 0; t < T; ++t) {
    q.insert(q.end(), one.begin(), one.end());
    k.insert(k.end(), other.begin(), other.end());
  }
  rope_forward(q.data(), table, {1, T}, 1, D, D);
  rope_forward(k.data(), table, {1, T}, 1, D, D);
  const auto product = [&](int i, int j) {
    double sum = 0;
    for (int d = 0; d < D; ++d) sum += double(q[i * D + d]) * double(k[j * D + d]);
    return sum;
  };
  for (const int distance : {0, 1, 13}) {
    CHECK(product(distance + 19, 19) == Approx(product(distance, 0)).epsilon(1e-5));
    CHECK(product(distance, 0) != Approx(product(distance + 2, 0)).epsilon(1e-2));
  }
}

// In float, the angle 999.99 of the slower pair would have an error of 2e-5.
TEST_CASE("RoPE's angles keep their digits at large positions", "[position]") {
  const int R = 4, t = 99999;
  const RopeTable table(t + 1, R, 10000);
  for (int i = 0; i < R / 2; ++i) {
    const long double angle = t * std::pow(10000.L, -2.L * i / R);
    CHECK(std::fabs(static_cast<long double>(table.cosine[t * (R / 2) + i]) - std::cos(angle)) < 6e-8L);
    CHECK(std::fabs(static_cast<long double>(table.sine[t * (R / 2) + i]) - std::sin(angle)) < 6e-8L);
  }
}

TEST_CASE("positions are the same for any number of threads", "[position]") {
  const int B = 5, T = 33, heads = 4, D = 32, C = heads * D;
  const RopeTable table(T, D, 10000);
  check_same_for_all_threads([&] {
    std::vector<float> x = random_floats(B * T * C, 1), dx = x, sum = x, dweight(T * C);
    rope_forward(x.data(), table, {B, T}, heads, D, C);
    rope_backward(dx.data(), table, {B, T}, heads, D, C);
    position_forward(sum.data(), x.data(), {B, T}, C);
    learned_position_backward(dweight.data(), dx.data(), {B, T}, C);
    return joined({x, dx, sum, dweight});
  });
}
