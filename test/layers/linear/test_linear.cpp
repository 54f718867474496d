#include "layers/linear/linear.hpp"
#include "layers/kernels/buffer.hpp"
#include "layers/kernels/reductions.hpp"
#include "layers/model/resolve.hpp"

#include "check.hpp"
#include "reference.hpp"

namespace {

constexpr double kTolerance = 5e-7;  // measured: at most 1.5e-7

struct Data {
  int N, I, O;
  std::vector<float> x, weight, bias, dy;
  Matmul matmul = Matmul::fp32;
  Linear p() { return {weight.data(), bias.empty() ? nullptr : bias.data(), matmul}; }
};

struct Result {
  std::vector<float> y, dx, dweight, dbias;
  std::vector<float> all() const { return joined({y, dx, dweight, dbias}); }
};

Result run(Data d, int backwards = 1) {
  Result r{garbage(d.N * d.O), garbage(d.N * d.I), std::vector<float>(d.O * d.I),
           std::vector<float>(d.bias.size())};
  linear_forward(r.y.data(), d.x.data(), d.p(), {d.N, d.I, d.O});
  const Linear g{r.dweight.data(), d.bias.empty() ? nullptr : r.dbias.data()};
  for (int i = 0; i < backwards; ++i)
    linear_backward(r.dx.data(), g, d.dy.data(), d.x.data(), d.p(), {d.N, d.I, d.O});
  return r;
}

Data made_up(int N, int I, int O, bool bias) {
  return {N, I, O, random_floats(N * I, 1), random_floats(O * I, 2), random_floats(bias ? O : 0, 3),
          random_floats(N * O, 4), Matmul::fp32};
}

}  // namespace

TEST_CASE("linear agrees with PyTorch", "[linear]") {
  for (const std::string& name : Reference::cases("linear")) {
    const Reference ref("linear", name);
    Data d{ref.integer("N"), ref.integer("I"), ref.integer("O"), ref.floats("x"), ref.floats("weight"), {},
           ref.floats("dy"), Matmul::fp32};
    const bool bias = ref.integer("bias");
    if (bias) d.bias = ref.floats("bias");
    const std::string at = "linear/" + name + "/";
    for (const int times_run : {1, 2}) {  // the second backward adds the same again
      const Result r = run(d, times_run);
      check_close(at + "y", r.y, ref.doubles("y"), kTolerance);
      check_close(at + "dx", r.dx, ref.doubles("dx"), kTolerance, ref.scale("dx"));
      check_close(at + "dweight", r.dweight, times(times_run, ref.doubles("dweight")), kTolerance,
                  ref.scale("dweight"));
      if (bias)
        check_close(at + "dbias", r.dbias, times(times_run, ref.doubles("dbias")), kTolerance, ref.scale("dbias"));
    }
  }
}

// A processor without bf16 computes in fp32, which is 2⁻⁹ away from rounded operands.
TEST_CASE("linear in bf16 agrees with PyTorch on rounded operands", "[linear][bf16]") {
  const double tolerance = gemm_has_bf16() ? 5e-7 : 4e-3;  // measured: at most 1.3e-7, and 2.4e-3 for fp32
  const std::string title = gemm_has_bf16() ? "linear_bf16/" : "linear without bf16/";
  for (const std::string& name : Reference::cases("linear_bf16")) {
    const Reference ref("linear_bf16", name);
    const Data d{ref.integer("N"),   ref.integer("I"),   ref.integer("O"),  ref.floats("x"),
                 ref.floats("weight"), ref.floats("bias"), ref.floats("dy"), Matmul::bf16};
    const Result r = run(d);
    check_close(title + name + "/y", r.y, ref.doubles("y"), tolerance);
    check_close(title + name + "/dx", r.dx, ref.doubles("dx"), tolerance, ref.scale("dx"));
    check_close(title + name + "/dweight", r.dweight, ref.doubles("dweight"), tolerance, ref.scale("dweight"));
    check_close(title + name + "/dbias", r.dbias, ref.doubles("dbias"), kTolerance, ref.scale("dbias"));
  }
}

TEST_CASE("linear is the same for any number of threads", "[linear]") {
  for (const auto& [N, I, O] : {std::array{70, 90, 130}, {257, 33, 65}, {33, 65, 257}})
    check_same_for_all_threads([&, N = N, I = I, O = O] { return run(made_up(N, I, O, true), 2).all(); });
}

TEST_CASE("column sums keep their precision over many rows", "[linear]") {
  const int N = 5000, C = 3;
  const std::vector<float> x = random_floats(N * C, 1, 1, .5f);
  std::vector<double> want(C, 7);
  for (int i = 0; i < N * C; ++i) want[i % C] += static_cast<double>(x[i]);
  std::vector<float> sums(C, 7);
  add_column_sums(sums.data(), x.data(), N, C);
  check_close("linear/column sums/5000", sums, want, kTolerance);
}

TEST_CASE("the parts of a joined linear layer are contiguous and have their own rows in the table", "[linear]") {
  Config config;
  config.vocab_size = 5;
  config = resolve(config);
  Layout measure;
  declare_linear(measure, config, "f", {{"a", Role::qk, 3}, {"b", Role::v, 5}}, 7);
  Buffer buffer = allocate(measure.size());
  Layout layout(buffer.get());
  const Linear p = declare_linear(layout, config, "f", {{"a", Role::qk, 3}, {"b", Role::v, 5}}, 7);
  const auto& table = layout.table();
  REQUIRE(table.size() == 4);
  CHECK(table[0].name == "f.a.weight");
  CHECK(table[1].name == "f.b.weight");
  CHECK(table[2].name == "f.a.bias");
  CHECK(table[3].name == "f.b.bias");
  CHECK(table[1].shape == std::vector<int>{5, 7});
  CHECK(table[1].offset == 21);
  CHECK(table[3].offset == table[2].offset + 3);
  CHECK(p.weight == buffer.get());
  CHECK(p.bias == buffer.get() + table[2].offset);
  CHECK(table[0].decay);
  CHECK_FALSE(table[2].decay);
}
