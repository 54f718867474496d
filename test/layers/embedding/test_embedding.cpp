#include "layers/embedding/embedding.hpp"

#include "check.hpp"
#include "layers/embedding/position.hpp"
#include "layers/embedding/unit_rows.hpp"
#include "layers/kernels/elementwise.hpp"
#include "reference.hpp"

constexpr double kTolerance = 2e-7;  // measured: at most 4.9e-8

TEST_CASE("embedding and learned positions agree with PyTorch", "[embedding][position]") {
  for (const std::string& name : Reference::cases("embedding")) {
    const Reference ref("embedding", name);
    const int B = ref.integer("B"), T = ref.integer("T"), V = ref.integer("V"), C = ref.integer("C");
    const int context = ref.integer("Tctx");
    const std::vector<int> tokens = ref.ints("tokens");
    const std::vector<float> weight = ref.floats("weight"), dout = ref.floats("dout");
    const bool positions = ref.has("position");
    const std::string at = "embedding/" + name + "/";

    std::vector<float> out = garbage(B * T * C);
    embedding_forward(out.data(), tokens.data(), weight.data(), B * T, C);
    if (positions) position_forward(out.data(), ref.floats("position").data(), {B, T}, C);
    check_close(at + "out", out, ref.doubles("out"), kTolerance);

    std::vector<float> dtoken(V * C), dposition(context * C);
    for (const int runs : {1, 2}) {  // the second backward adds the same again
      embedding_backward(dtoken.data(), tokens.data(), dout.data(), B * T, C);
      check_close(at + "dtoken", dtoken, times(runs, ref.doubles("dtoken")), kTolerance, ref.scale("dtoken"));
      if (!positions) continue;
      learned_position_backward(dposition.data(), dout.data(), {B, T}, C);
      check_close(at + "dposition", dposition, times(runs, ref.doubles("dposition")), kTolerance,
                  ref.scale("dposition"));
    }
    for (int v = 0; v < V; ++v)  // tokens that do not occur
      if (std::find(tokens.begin(), tokens.end(), v) == tokens.end())
        for (int c = 0; c < C; ++c) CHECK(dtoken[v * C + c] == 0);
  }
}

TEST_CASE("unit rows agree with PyTorch", "[embedding]") {
  for (const std::string& name : Reference::cases("unit_rows")) {
    const Reference ref("unit_rows", name);
    const int V = ref.integer("V"), C = ref.integer("C");
    std::vector<float> weight = ref.floats("weight"), dunit = ref.floats("dunit");
    std::vector<float> unit = garbage(V * C), scale = garbage(V), dweight(V * C);
    const UnitRows rows{unit.data(), scale.data(), dunit.data()};
    unit_rows_forward(rows, weight.data(), V, C);
    check_close("unit rows/" + name + "/unit", unit, ref.doubles("unit"), kTolerance);
    for (const int runs : {1, 2}) {  // the second backward adds the same again
      unit_rows_backward(dweight.data(), rows, V, C);
      check_close("unit rows/" + name + "/dweight", dweight, times(runs, ref.doubles("dweight")), kTolerance,
                  1e3 * ref.scale("dweight"));
    }
  }
}

TEST_CASE("a row of zeros stays a row of zeros, and does not learn", "[embedding]") {
  const int C = 19;
  std::vector<float> weight(2 * C), unit = garbage(2 * C), scale = garbage(2), dunit = random_floats(2 * C, 1);
  weight[C] = -3;
  std::vector<float> dweight(2 * C);
  const UnitRows rows{unit.data(), scale.data(), dunit.data()};
  unit_rows_forward(rows, weight.data(), 2, C);
  unit_rows_backward(dweight.data(), rows, 2, C);
  CHECK(unit[C] == -1);
  CHECK(scale == std::vector<float>{0, 1 / 3.f});
  for (int c = 0; c < C; ++c) {
    CHECK(unit[c] == 0);
    CHECK(dweight[c] == 0);
    if (c > 0) CHECK(dweight[C + c] == scale[1] * dunit[C + c]);
  }
  CHECK(dweight[C] == 0);  // along the row
}

TEST_CASE("unit rows are the same for any number of threads, and in place", "[embedding]") {
  const int V = 700, C = 97;
  const std::vector<float> weight = random_floats(V * C, 1);
  std::vector<float> dunit = random_floats(V * C, 2);
  check_same_for_all_threads([&] {
    std::vector<float> w = weight, unit = garbage(V * C), scale = garbage(V), dweight(V * C);
    const UnitRows rows{unit.data(), scale.data(), dunit.data()};
    unit_rows_forward(rows, w.data(), V, C);
    unit_rows_backward(dweight.data(), rows, V, C);
    unit_rows_forward({w.data(), scale.data()}, w.data(), V, C);
    CHECK(same_bits(w, unit));
    return joined({unit, scale, dweight});
  });
}

TEST_CASE("embedding is the same for any number of threads", "[embedding]") {
  const int N = 600, V = 7, C = 97;
  const std::vector<float> weight = random_floats(V * C, 1), dx = random_floats(N * C, 2);
  const std::vector<int> tokens = random_ints(N, 3, V);
  check_same_for_all_threads([&] {
    std::vector<float> x = garbage(N * C), dweight(V * C);
    embedding_forward(x.data(), tokens.data(), weight.data(), N, C);
    embedding_backward(dweight.data(), tokens.data(), dx.data(), N, C);
    return joined({x, dweight});
  });
}

TEST_CASE("an embedding of 16-bit numbers gives the same rows as one of floats", "[embedding]") {
  const int N = 50, V = 9, C = 45;
  const std::vector<int> tokens = random_ints(N, 3, V);
  for (const NumberType type : {NumberType::bf16, NumberType::fp16}) {
    std::vector<float> weight = random_floats(V * C, 1), packed(floats_of(type, V * C));
    std::vector<float> want(N * C), x = garbage(N * C);
    round_to(type, packed.data(), 0, weight.data(), V * C);
    as_numbers(packed.data(), type, [&]<class Number>(const Number* numbers) {
      for (int i = 0; i < V * C; ++i) weight[i] = widened(numbers[i]);
    });
    embedding_forward(want.data(), tokens.data(), weight.data(), N, C, 3);
    embedding_forward(x.data(), tokens.data(), packed.data(), N, C, 3, type);
    CHECK(x == want);
  }
}
